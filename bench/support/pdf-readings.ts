/**
 * Owns the reading of PDF documents here and by readers written in Python, each with its CPU time.
 * It must never judge what was read.
 */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { ReadingProcess } from './reading.js';

export interface Reading {
  readonly text: string;
  readonly cpuS: number;
}
/** By path; those that a reader refuses are missing. */
export type Readings = ReadonlyMap<string, Reading>;

const script = fileURLToPath(new URL('../../../bench/support/pdf_readers.py', import.meta.url));
const python = process.env.PYTHON ?? 'python3';

/** Twice, since the first reading compiles: the second is counted. */
export async function readHere(paths: readonly string[]): Promise<Readings> {
  const service = await ReadingProcess.start({ reader: 'service', processes: 1 });
  const readings = new Map<string, Reading>();
  try {
    for (const path of [...paths, ...paths]) {
      const { texts, failures, cpuS } = await service.read({ paths: [path], languages: [] });
      if (failures.length === 0) readings.set(path, { text: texts.join('\f'), cpuS });
    }
  } finally {
    await service.close();
  }
  return readings;
}

/** Null where the reader is not installed, or fails. */
export function readWithPython(reader: string, paths: readonly string[]): Readings | null {
  const input = JSON.stringify({ reader, paths });
  const options = { encoding: 'utf8', maxBuffer: 2 ** 30, input } as const;
  const { stdout, status } = spawnSync(python, [script], options);
  if (status !== 0) return null;
  const answer = stdout.slice(stdout.lastIndexOf('\n{') + 1);
  return new Map(Object.entries(JSON.parse(answer) as Record<string, Reading>));
}
