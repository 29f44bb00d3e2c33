/**
 * Owns the examination of a data folder: every record and every blob is read and held against its checksum.
 * It must never change anything, and what ends a process must cost only the step that met it: LMDB maps its file, so a
 * page that is not there is a bus error, which no program survives.
 */
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

/** What one process of its own reads. */
export interface CheckStep {
  readonly folder: string;
  /** `records` or `keys`. */
  readonly name: string;
  /** Of the keys; null: all, records or not. */
  readonly prefix: string | null;
  /** Whether the folder has the bytes of files. */
  readonly hasBlobs: boolean;
}

/** A line that the process writes. */
export type CheckLine =
  | { readonly type: 'damaged'; readonly what: string }
  | { readonly type: 'at'; readonly key: string }
  | { readonly type: 'done'; readonly count: number };

export interface DataReport {
  /** One line each: what is damaged. */
  readonly damaged: readonly string[];
  readonly records: number;
}

const steps: readonly (readonly [name: string, prefix: string | null])[] = [
  ...[
    ...['account', 'cache', 'cache-body', 'tag', 'tags', 'file'],
    ...['response', 'response-body', 'response-events', 'conversation', 'conversation-items'],
    ...['batch', 'batch-line'],
  ].map((prefix) => ['records', prefix] as const),
  ['records', null],
  ['keys', 'key'],
  ['keys', 'account'],
  ['keys', null],
];

/** @param hasBlobs false: the bytes of files are in a bucket, and are checked when they are read. */
export async function checkData(folder: string, hasBlobs = true): Promise<DataReport> {
  const damaged: string[] = [];
  let records = 0;
  for (const [name, prefix] of steps) {
    if (!existsSync(join(folder, `${name}.mdb`))) {
      if (prefix === null) damaged.push(`${name}.mdb is not there`);
      continue;
    }
    const { count, found } = await run({ folder, name, prefix, hasBlobs });
    if (prefix !== null) records += count;
    damaged.push(...found);
  }
  return { damaged: [...new Set(damaged)], records };
}

const CHILD = fileURLToPath(new URL('./check-data-child.js', import.meta.url));

async function run(
  step: CheckStep,
): Promise<{ readonly count: number; readonly found: readonly string[] }> {
  const child = spawn(process.execPath, [CHILD, JSON.stringify(step)], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const ended = new Promise<string | null>((resolve) => {
    child.once('close', (code, signal) => resolve(code === 0 ? null : (signal ?? `exit ${code}`)));
  });
  let stderr = '';
  child.stderr.on('data', (text: Buffer) => {
    stderr = (stderr + text.toString()).slice(-ERROR_LENGTH_MAX);
  });
  const found: string[] = [];
  let count = 0;
  let last = 'its first record';
  for await (const text of createInterface(child.stdout)) {
    const line = JSON.parse(text) as CheckLine;
    if (line.type === 'damaged') found.push(line.what);
    else if (line.type === 'at') last = line.key;
    else count = line.count;
  }
  const how = await ended;
  if (how === null) return { count, found };
  const part = step.prefix === null ? 'all pages' : `the ${step.prefix} records`;
  const reason = /^\w*Error: .*$/m.exec(stderr)?.[0] ?? how;
  const text = `${step.name}.mdb cannot be read: reading ${part} ended after ${last} (${reason})`;
  return { count, found: [...found, text] };
}

const ERROR_LENGTH_MAX = 16_384;
