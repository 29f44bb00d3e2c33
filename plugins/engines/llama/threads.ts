/**
 * Owns how many threads a lone stream and a batch get, measured once on this machine and remembered.
 * It must never be consulted per token: the two numbers are fixed when the engine opens.
 */
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { availableParallelism, cpus } from 'node:os';
import { join } from 'node:path';
import type { EngineOptions } from 'preface/plugin';
import type { Context } from './context.js';
import type { Weights } from './native.js';

export interface ThreadCounts {
  readonly single: number;
  readonly batch: number;
}

/** What is evaluated: the next token of one stream, of several, or a part of a prompt. */
export type Work = 'single' | 'batch' | 'prompt';

interface Trial {
  threads: number;
  otherThreads: number;
  ms: number;
  otherMs: number;
  steps: number;
  /** Steps until the other count is tried again. */
  pause: number;
}

const PAUSE_MIN = 16;
const PAUSE_MAX = 1_024;
/** The other count has to win by this, or noise would switch to and fro. */
const MARGIN = 0.9;

/**
 * Follows what the machine can give now. Threads of one batch wait for each other by spinning, so that
 * beside other busy processes more threads can be many times slower; a rare trial finds out, rarer as it fails.
 */
export class ThreadChoice {
  readonly #trials: Readonly<Record<Work, Trial>>;

  constructor(
    counts: ThreadCounts,
    private readonly fixed: boolean,
  ) {
    const { single, batch } = counts;
    this.#trials = {
      single: newTrial(single, batch),
      batch: newTrial(batch, single),
      prompt: newTrial(batch, single),
    };
  }

  next(work: Work): number {
    const trial = this.#trials[work];
    const other = !this.fixed && trial.steps >= trial.pause;
    return other ? trial.otherThreads : trial.threads;
  }

  /** Learns from a step that `next` gave the count for. */
  took(work: Work, ms: number, tokens: number): void {
    const trial = this.#trials[work];
    if (this.fixed || trial.threads === trial.otherThreads) return;
    const each = ms / tokens;
    if (trial.steps < trial.pause) {
      trial.steps++;
      trial.ms = trial.ms === 0 ? each : trial.ms * 0.75 + each * 0.25;
      return;
    }
    trial.steps = 0;
    trial.otherMs = each;
    trial.pause = Math.min(trial.pause * 2, PAUSE_MAX);
    if (trial.otherMs < trial.ms * MARGIN) {
      [trial.threads, trial.otherThreads] = [trial.otherThreads, trial.threads];
      trial.ms = trial.otherMs;
      trial.pause = PAUSE_MIN;
    }
  }
}

function newTrial(threads: number, otherThreads: number): Trial {
  return { threads, otherThreads, ms: 0, otherMs: 0, steps: 0, pause: PAUSE_MIN };
}

const FILE = 'engine-llama-threads.json';
const BATCH = 4;
const STEPS = 12;
const ROUNDS = 3;
/** A count this much slower than the best is not timed to its end, and never the best. */
const GIVE_UP = 1.5;

export async function threadCounts(
  weights: Weights,
  { stateDir, exact }: EngineOptions,
): Promise<ThreadCounts> {
  const cores = availableParallelism();
  const key = [cpus()[0]?.model ?? '', cores, weights.facts.description, exact].join(' | ');
  const file = join(stateDir, FILE);
  const known = await remembered(file, key);
  if (known) return known;
  const counts = cores === 1 ? { single: 1, batch: 1 } : await measure(weights, exact, cores);
  await mkdir(stateDir, { recursive: true });
  await writeFile(file, `${JSON.stringify({ key, ...counts })}\n`);
  return counts;
}

async function remembered(file: string, key: string): Promise<ThreadCounts | null> {
  try {
    const { key: measured, single, batch } = JSON.parse(await readFile(file, 'utf8'));
    const sane = [single, batch].every((n) => Number.isInteger(n) && n > 0 && n <= 1024);
    return measured === key && sane ? { single, batch } : null;
  } catch {
    return null;
  }
}

async function measure(weights: Weights, exact: boolean, cores: number): Promise<ThreadCounts> {
  const settings = { window: 512, sequences: BATCH, flashAttention: !exact, rows: BATCH };
  const context = await weights.context(settings);
  try {
    const candidates = threadCandidates(cores);
    return {
      single: await fastest(context, candidates, 1),
      batch: await fastest(context, candidates, BATCH),
    };
  } finally {
    await context.close();
  }
}

/** Powers of two and the number of cores itself. */
export function threadCandidates(cores: number): number[] {
  const counts = [cores];
  for (let n = 1; n < cores; n *= 2) counts.push(n);
  return counts.sort((a, b) => a - b);
}

/** Candidates take turns and the best round counts: whatever else runs only ever makes a round slower. */
async function fastest(context: Context, candidates: readonly number[], streams: number) {
  const best = new Map<number, number>();
  for (let round = 0; round < ROUNDS; round++) {
    for (const threads of candidates) {
      const least = Math.min(Number.POSITIVE_INFINITY, ...best.values());
      const ms = await decodeMs(context, threads, streams, GIVE_UP * least);
      best.set(threads, Math.min(ms, best.get(threads) ?? Number.POSITIVE_INFINITY));
    }
  }
  const [first] = [...best].sort((a, b) => a[1] - b[1]);
  return first?.[0] ?? 1;
}

async function decodeMs(
  context: Context,
  threads: number,
  streams: number,
  msMax: number,
): Promise<number> {
  const startedAt = performance.now();
  for (let position = 0; position < STEPS; position++) {
    if (performance.now() - startedAt > msMax) break;
    const items = Array.from({ length: streams }, (_, sequence) => ({
      sequence,
      position,
      ids: [position + 1],
      logits: true,
    }));
    await context.evaluate(items, threads);
  }
  const ms = performance.now() - startedAt;
  for (let sequence = 0; sequence < streams; sequence++) context.clear(sequence);
  return ms;
}
