/**
 * Owns the walls of readers as the settings ask for them: whose code and which models they see, and what they never see.
 * It must never let them see a folder that is not named there.
 */
import { statSync } from 'node:fs';
import { limits } from '../limits/index.js';
import { findWalls, type Walls } from './walls.js';

export interface ReaderSettings {
  readonly extractors: readonly string[];
  /** Null: the models are those of packages. */
  readonly ocrData: string | null;
  readonly dataDir: string;
}

/** @throws Error where the folder of models is none: pictures would be read with others in silence. */
export async function readerWalls(settings: ReaderSettings): Promise<Walls> {
  const { extractors, ocrData, dataDir } = settings;
  if (ocrData !== null && !statSync(ocrData, { throwIfNoEntry: false })?.isDirectory()) {
    throw new Error(`setting PREFACE_OCR_DATA: ${ocrData} is no folder`);
  }
  return await findWalls({
    modules: extractors,
    readable: ocrData === null ? [] : [ocrData],
    hidden: [dataDir],
    memoryBytesMax: limits.extractionMemoryBytesMax,
  });
}
