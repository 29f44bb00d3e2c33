/**
 * Owns what tells equal weights on different machines: the SHA-256 of their files, noted so that a start reads them once.
 * It must never take a note for a file that has changed since.
 */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdir, readFile, rename, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { partNames } from 'preface/plugin';

const FILE = 'engine-llama-weights.json';

/** By path: size and time of each part, and the hash. */
type Notes = Record<string, { readonly of: string; readonly sha256: string }>;

export async function contentOf(path: string, stateDir: string): Promise<readonly string[]> {
  const parts = partNames(path);
  const facts = await Promise.all(parts.map((part) => stat(part)));
  const of = JSON.stringify(facts.map(({ size, mtimeMs }) => [size, mtimeMs]));
  const notes = await read(join(stateDir, FILE));
  const known = notes[path];
  if (known?.of === of) return [known.sha256];
  const hash = createHash('sha256');
  for (const part of parts)
    for await (const piece of createReadStream(part)) hash.update(piece as Buffer);
  const sha256 = hash.digest('hex');
  await write(stateDir, { ...notes, [path]: { of, sha256 } });
  return [sha256];
}

async function read(file: string): Promise<Notes> {
  try {
    return JSON.parse(await readFile(file, 'utf8')) as Notes;
  } catch {
    return {};
  }
}

/** What cannot be noted is read again at the next start. */
async function write(stateDir: string, notes: Notes): Promise<void> {
  const file = join(stateDir, FILE);
  try {
    await mkdir(stateDir, { recursive: true });
    await writeFile(`${file}.tmp`, JSON.stringify(notes), { mode: 0o600 });
    await rename(`${file}.tmp`, file);
  } catch {
    // A full disk is told by who needs it.
  }
}
