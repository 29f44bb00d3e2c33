/**
 * Owns a copy of the default weights with their first layers alone: the same vocabulary, template, shapes and kernels, and a
 * twentieth of the work for each token of a prompt. Its answers have no sense.
 * It must never serve a test that looks at what the default model says, nor at what all its layers make of rounding.
 */
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DEFAULT_WEIGHTS } from '../../src/settings/weights-table.js';
import { keepLayers } from './quantize.js';
import { skipWithoutWeights, smallModelPath } from './weights.js';

const LAYERS = { kept: 2, all: 30 } as const;
const FILE = 'shallow.gguf';

let own: string | null = null;

/** That of the run (`TEST_EXACTNESS`), or one for this process, which is gone when it ends. Without the default weights, these. */
export function shallowWeights(): string {
  if (skipWithoutWeights !== false) return smallModelPath;
  const shared = join(process.env.TEST_EXACTNESS ?? '', FILE);
  if (process.env.TEST_EXACTNESS !== undefined && existsSync(shared)) return shared;
  own ??= makeShallowWeights(ownFolder());
  return own;
}

export function makeShallowWeights(folder: string): string {
  const path = join(folder, FILE);
  keepLayers(smallModelPath, path, LAYERS.kept, LAYERS.all);
  return path;
}

/** Settings that serve it under the names of the default models. */
export const shallowSettings = () => ({
  weights: { [DEFAULT_WEIGHTS]: { file: shallowWeights() } },
});

/** The same for a service whose settings are its environment. */
export function shallowEnv(): Readonly<Record<string, string>> {
  const file = join(ownFolder(), 'settings.json');
  writeFileSync(file, JSON.stringify(shallowSettings()));
  return { PREFACE_ENGINE: 'llama', PREFACE_CONFIG: file };
}

let folder: string | null = null;

function ownFolder(): string {
  if (folder !== null) return folder;
  const made = mkdtempSync(join(tmpdir(), 'preface-shallow-'));
  process.on('exit', () => rmSync(made, { recursive: true, force: true }));
  folder = made;
  return made;
}
