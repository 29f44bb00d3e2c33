/**
 * Owns the proof of exactness: which ways of evaluating give the same bits with these weights, this processor and build.
 * It must never promise what it has not compared; what it finds is kept, so that it runs at a first start alone.
 */
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { cpus } from 'node:os';
import { join } from 'node:path';
import type { Context } from './context.js';
import type { Weights } from './native.js';

/** The rules under which a reused prefix gives the bits of a cold run. */
export interface Exactness {
  readonly held: boolean;
  /** Prompts are evaluated from multiples of so many tokens on: kernels that take rows by groups give other bits to the rest. */
  readonly grain: number;
  /** Streams that may be evaluated together. */
  readonly decodeRows: number;
}

const FILE = 'engine-llama-exactness.json';
const TOKENS = 118;
const SEQUENCES = 8;
/** Chunks of every size again and again: kernels may differ by a bit in one token of a hundred. */
const GROUPS = [
  { grain: 1, chunks: [2, 3, 5, 33] },
  { grain: 4, chunks: [4, 12, 32] },
] as const;
const DECODE_ROWS = [2, 3, 4, 5, SEQUENCES] as const;
const DECODE_AT = 2;
const DECODE_STEPS = 6;

export interface Proving {
  readonly build: string;
  readonly stateDir: string;
  /** Of a prompt, besides one. */
  readonly threads: number;
}

export async function exactnessOf(
  weights: Weights,
  { build, stateDir, threads }: Proving,
): Promise<Exactness> {
  const file = join(stateDir, FILE);
  const { description, weightsBytes } = weights.facts;
  const key = [build, cpus()[0]?.model ?? '', description, weightsBytes].join(' | ');
  const known = await remembered(file);
  const kept = known[key];
  if (kept) return kept;
  const found = await prove(weights, threads);
  await mkdir(stateDir, { recursive: true });
  await writeFile(file, `${JSON.stringify({ ...known, [key]: found })}\n`);
  return found;
}

async function remembered(file: string): Promise<Record<string, Exactness>> {
  try {
    const all = JSON.parse(await readFile(file, 'utf8')) as Record<string, Partial<Exactness>>;
    const sane = Object.entries(all).filter(
      ([, { held, grain = 0, decodeRows = 0 }]) =>
        typeof held === 'boolean' && [1, 4].includes(grain) && decodeRows >= 1,
    );
    return Object.fromEntries(sane) as Record<string, Exactness>;
  } catch {
    return {};
  }
}

async function prove(weights: Weights, threads: number): Promise<Exactness> {
  const settings = { window: 256, sequences: SEQUENCES, flashAttention: false, rows: TOKENS };
  const context = await weights.context(settings);
  try {
    const { vocabularySize } = weights.facts;
    const ids = Uint32Array.from(
      { length: TOKENS },
      (_, i) => (i * i * 7_919 + i * 31 + 13) % vocabularySize,
    );
    const group = await provenGroup(context, ids, threads);
    const decodeRows = await provenRows(context, ids);
    return { held: group !== null, grain: group ?? 1, decodeRows };
  } finally {
    await context.close();
  }
}

/** The smallest group at whose borders chunks may end without a change in the last token's logits. */
async function provenGroup(
  context: Context,
  ids: Uint32Array,
  threads: number,
): Promise<number | null> {
  const all = ids.length;
  const whole = await promptBits(context, ids, all, 1);
  if (threads > 1 && !(await promptBits(context, ids, all, threads)).equals(whole)) return null;
  for (const { grain, chunks } of GROUPS) {
    let same = true;
    for (const length of chunks) same &&= (await promptBits(context, ids, length, 1)).equals(whole);
    if (same) return grain;
  }
  return null;
}

/** Logits of the last token after chunks of this length. */
async function promptBits(
  context: Context,
  ids: Uint32Array,
  length: number,
  threads: number,
): Promise<Buffer> {
  context.clear(0);
  let last = 0;
  for (let position = 0; position < ids.length; position += length) {
    const chunk = ids.subarray(position, position + length);
    const item = { sequence: 0, position, ids: chunk, logits: true };
    const [row = 0] = await context.evaluate([item], threads);
    last = row;
  }
  return bitsOf(context, last);
}

/** The most streams in one batch that leave a stream's logits as they are alone. */
async function provenRows(context: Context, ids: Uint32Array): Promise<number> {
  const alone = await decodeBits(context, ids, 1);
  let most = 1;
  for (const rows of DECODE_ROWS) {
    const together = await decodeBits(context, ids, rows);
    if (!together.every((bits, i) => alone[Math.floor(i / rows)]?.equals(bits))) return most;
    most = rows;
  }
  return Number.MAX_SAFE_INTEGER;
}

/** Logits of each step and stream; every stream has the same tokens, so that each must have the same logits. */
async function decodeBits(context: Context, ids: Uint32Array, rows: number): Promise<Buffer[]> {
  const sequences = Array.from({ length: rows }, (_, sequence) => sequence);
  for (const sequence of sequences) {
    context.clear(sequence);
    const prompt = { sequence, position: 0, ids: ids.subarray(0, DECODE_AT), logits: false };
    await context.evaluate([prompt], 1);
  }
  const step = (position: number) =>
    sequences.map((sequence) => ({
      sequence,
      position,
      logits: true,
      ids: ids.subarray(position, position + 1),
    }));
  const bits: Buffer[] = [];
  for (let position = DECODE_AT; position < DECODE_AT + DECODE_STEPS; position++) {
    const found = await context.evaluate(step(position), 1);
    bits.push(...found.map((row) => bitsOf(context, row)));
  }
  return bits;
}

function bitsOf(context: Context, row: number): Buffer {
  const logits = context.logits(row);
  return Buffer.from(Float32Array.from(logits).buffer);
}
