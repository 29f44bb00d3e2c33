/**
 * Owns the opening of the files and of the processes that read documents.
 * It must never serve a request before the extractions of the last run are taken up.
 */
import { join } from 'node:path';
import { Files } from '../files/files.js';
import type { Gate } from '../http/gate.js';
import { limits } from '../limits/index.js';
import { ExtractionPool } from '../pool/extraction.js';
import { findWalls, wallsText } from '../pool/walls.js';
import { Blobs } from '../store/blobs.js';
import type { Store } from '../store/store.js';
import { type Context, faultLog } from './context.js';

/** Says in the log what the system holds readers back with. */
export async function openExtraction(context: Context): Promise<ExtractionPool> {
  const { config, clock, log, report, opened } = context;
  const { extractors, ocrLanguages: languages, extractProcesses: processes, dataDir } = config;
  const memoryBytesMax = limits.extractionMemoryBytesMax;
  const walls = await findWalls({ modules: extractors, hidden: [dataDir], memoryBytesMax });
  log(wallsText(walls));
  const readers = { extractors, languages, processes, walls };
  const extraction = new ExtractionPool({ ...readers, clock, log, report });
  return opened.add(extraction, (part) => part.close());
}

export interface FileParts {
  readonly records: Store;
  readonly gate: Gate;
  readonly extraction: ExtractionPool;
}

export async function openFiles(
  context: Context,
  { records, gate, extraction }: FileParts,
): Promise<Files> {
  const { config, clock, newBytes, opened } = context;
  const max = (owner: string) => {
    const { files: count, fileBytes: bytes } = gate.policies.of(owner);
    return { count, bytes };
  };
  const files = new Files({
    store: records,
    blobs: await Blobs.open(join(config.dataDir, 'files')),
    extraction,
    clock,
    newBytes,
    report: faultLog(context, 'file'),
    max,
  });
  opened.add(files, (part) => part.close());
  await files.start();
  return files;
}
