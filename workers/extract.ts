/**
 * Owns the extraction thread: opens the extractors once and reads each document it is given.
 * It must never see the store, an actor or HTTP, and never throw across the thread: an error is a value.
 */
import { toErrorValue } from '../src/errors.js';
import { loadPlugin } from '../src/plugin/load.js';
import { type OpenExtractor, readDocument } from '../src/pool/document-reader.js';
import type {
  ExtractProgress,
  ReaderResult,
  ReaderStart,
  ReaderTask,
} from '../src/pool/messages.js';

let extractors: readonly OpenExtractor[] = [];

export default async function extract(task: ReaderTask): Promise<ReaderResult> {
  try {
    if (task.type === 'read') return await read(task);
    extractors = await Promise.all(task.extractors.map(open));
    return { type: 'opened' };
  } catch (cause) {
    return { type: 'failed', error: toErrorValue(cause) };
  }
}

async function open({
  module,
  options,
}: ReaderStart['extractors'][number]): Promise<OpenExtractor> {
  const plugin = await loadPlugin(module, 'extractor');
  return { name: plugin.name, extractor: await plugin.open(options), bounds: options.bounds };
}

async function read({ task, port }: Extract<ReaderTask, { type: 'read' }>): Promise<ReaderResult> {
  const onProgress = (progress: ExtractProgress) => port.postMessage(progress);
  try {
    return { type: 'read', ...(await readDocument(extractors, task, onProgress)) };
  } finally {
    port.close();
  }
}
