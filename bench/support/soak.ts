/**
 * Owns one soak: a service with two models, mixed calls on the one and streams on the other, and the results of both.
 * It must never excuse an unexpected answer: each is a violation, however rare.
 */

import { readyCache } from './caches.js';
import { MODEL } from './chat.js';
import { defaultWeights } from './counting.js';
import { MemorySamples, type Slope } from './memory-slope.js';
import { KEY, type Server, startService } from './servers.js';
import { FAMILY, SoakMix } from './soak-calls.js';
import { type LoadFigures, SoakLoad } from './soak-load.js';
import { runStreams, type StreamFigures } from './soak-streams.js';
import { Shelf } from './soak-world.js';

export interface SoakOptions {
  readonly seconds: number;
  readonly warmUpS: number;
  readonly ratePerS: number;
  /** The rate of the warm-up. */
  readonly warmRatePerS: number;
  /** Streams on the real model; none without its weights. */
  readonly streams: number;
  /** The most growth per minute at which memory still counts as flat. */
  readonly slopeMbPerMinMax: number;
}

export interface Soaked {
  readonly load: LoadFigures;
  /** Null without weights. */
  readonly streams: StreamFigures | null;
  readonly slope: Slope;
  readonly violations: readonly string[];
}

const REAL = 'real';
const STREAMS_KEY = 'key-of-the-streams';
/** A small context for each of many streams, since prompt and answer are short. */
const REAL_WINDOW = 512;

export async function soak(options: SoakOptions): Promise<Soaked> {
  const streams = defaultWeights() === null ? 0 : options.streams;
  const server = await start(streams);
  try {
    return await soakServer(server, { ...options, streams });
  } finally {
    await server.close();
  }
}

function start(streams: number): Promise<Server> {
  const echo = { engine: 'echo', tokenizer: 'bytes', weights: null, window: 8_192, family: FAMILY };
  const real = { engine: 'llama', window: REAL_WINDOW };
  const models = { [MODEL]: echo, ...(streams === 0 ? {} : { [REAL]: real }) };
  const env = {
    PREFACE_API_KEYS: `bench:${KEY},streams:${STREAMS_KEY}`,
    PREFACE_THREADS: '1,1',
    PREFACE_SLOTS: String(Math.max(1, streams)),
  };
  return startService({
    core: 'any',
    env,
    config: { models, limits: { accountConcurrency: 1_000 } },
  });
}

async function soakServer(server: Server, options: SoakOptions): Promise<Soaked> {
  const { port } = server;
  const { seconds, warmUpS, ratePerS, warmRatePerS } = options;
  const { id: cacheId } = await readyCache(server, [{ role: 'system', content: 'Be brief.' }]);
  const world = { caches: new Shelf(), tags: new Shelf(), files: new Shelf(), cacheId };
  const mix = new SoakMix(world);
  const next = () => mix.next();
  const memory = new MemorySamples(server);
  const untilMs = performance.now() + seconds * 1_000;
  const task = { port, key: STREAMS_KEY, model: REAL, streams: options.streams, untilMs };
  // The streams may end later, when the calls no longer run.
  const loaded = new SoakLoad({ port, ratePerS, warmRatePerS, seconds, warmUpS, next }).run();
  const [load, streams] = await Promise.all([
    loaded.finally(() => memory.end()),
    options.streams === 0 ? null : runStreams(task),
  ]);
  const slope = memory.slope(warmUpS);
  const violations = violationsOf({ load, streams, slope }, options);
  return { load, streams, slope, violations };
}

export function violationsOf(soaked: Omit<Soaked, 'violations'>, options: SoakOptions): string[] {
  const { load, streams, slope } = soaked;
  const { slopeMbPerMinMax } = options;
  const violations = [...load.faults, ...(streams?.faults ?? [])];
  const untold = load.faultCount - load.faults.length;
  if (untold > 0) violations.push(`and ${untold} more`);
  if (load.sent === 0) violations.push('nothing was sent');
  if (streams?.whole === 0) violations.push('no stream came to its end');
  // Growth within the noise of the samples is no violation.
  if (!(slope.mbPerMin - 2 * slope.uncertainty <= slopeMbPerMinMax)) {
    violations.push(`memory grows by ${slope.mbPerMin.toFixed(2)} MB/min`);
  }
  return violations;
}
