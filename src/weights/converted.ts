/**
 * Owns where converted weights lie, and which file is served in place of the original.
 * It must never serve a file that was made from another content of the original.
 */
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';

export type Converted = 'q8_0' | 'q4_0';
export type Quantize = 'auto' | 'keep' | Converted;

/** What was measured, by the type of the numbers; `keep` is the original. */
export interface ConversionChoice {
  readonly choice: 'keep' | Converted;
  readonly measured: Readonly<Record<string, Measured>>;
}

export interface Measured {
  readonly promptPerS: number;
  readonly streamPerS: number;
  readonly loss: number;
}

/** Beside the original's other copies: they belong to the machine, not to one service. */
export const conversionsFolder = (modelsDir: string) => join(modelsDir, 'converted');

export function convertedPath(path: string, type: Converted, modelsDir: string): string {
  return join(conversionsFolder(modelsDir), `${nameOf(path)}.${type}.gguf`);
}

export function choicePath(path: string, modelsDir: string): string {
  return join(conversionsFolder(modelsDir), `${nameOf(path)}.choice.json`);
}

/** Size and time stand for the content. */
function nameOf(path: string): string {
  const { size, mtimeMs } = statSync(path);
  const mark = createHash('sha256').update(`${size} ${mtimeMs}`).digest('hex').slice(0, 12);
  return `${basename(path, '.gguf')}.${mark}`;
}

/** @returns null where nothing was chosen yet. */
export function readChoice(path: string, modelsDir: string): ConversionChoice | null {
  try {
    const found = JSON.parse(readFileSync(choicePath(path, modelsDir), 'utf8')) as ConversionChoice;
    const isWhole = ['keep', 'q8_0', 'q4_0'].includes(found.choice) && found.measured.keep;
    return isWhole ? found : null;
  } catch {
    return null;
  }
}

/** The converted file where it is wanted and there; the original in every other case. */
export function servedPath(path: string, quantize: Quantize, modelsDir: string): string {
  if (quantize === 'keep' || !existsSync(path)) return path;
  const type = quantize === 'auto' ? readChoice(path, modelsDir)?.choice : quantize;
  if (type === undefined || type === 'keep') return path;
  const converted = convertedPath(path, type, modelsDir);
  return existsSync(converted) ? converted : path;
}
