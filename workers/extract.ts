/**
 * Owns the extraction thread: opens the extractors once and reads each document it is given.
 * It must never see the store, an actor or HTTP, and never throw across the thread: an error is a value.
 */
import { toErrorValue } from '../src/errors.js';
import type { ExtractorOptions } from '../src/plugin/contract.js';
import { loadPlugin } from '../src/plugin/load.js';
import { askedThrough } from '../src/pool/asked-pictures.js';
import { type OpenExtractor, readDocument } from '../src/pool/document-reader.js';
import type { ReaderResult, ReaderStart, ReaderTask } from '../src/pool/messages.js';
import { TextPieces } from '../src/pool/text-pieces.js';

let extractors: readonly OpenExtractor[] = [];

export default async function extract(task: ReaderTask): Promise<ReaderResult> {
  try {
    if (task.type === 'read') return await read(task);
    const recognize = task.pictures === null ? {} : { recognize: askedThrough(task.pictures) };
    extractors = await Promise.all(task.extractors.map((each) => open(each, recognize)));
    return { type: 'opened' };
  } catch (cause) {
    return { type: 'failed', error: toErrorValue(cause) };
  }
}

async function open(
  { module, options }: ReaderStart['extractors'][number],
  recognize: Pick<ExtractorOptions, 'recognize'>,
): Promise<OpenExtractor> {
  const plugin = await loadPlugin(module, 'extractor');
  return {
    name: plugin.name,
    extractor: await plugin.open({ ...options, ...recognize }),
    bounds: options.bounds,
  };
}

type ReadTask = Extract<ReaderTask, { type: 'read' }>;

async function read({ bytes, filename, port }: ReadTask): Promise<ReaderResult> {
  try {
    const reading = await readDocument(extractors, { bytes, filename }, new TextPieces(port));
    return { type: 'read', ...reading };
  } finally {
    port.close();
  }
}
