/**
 * Owns the run of kills: a service under load is killed at a random moment, restarted, and compared with what it had
 * acknowledged, many times on the same data. It must never go on after the first difference.
 */
import { existsSync, mkdtempSync, readdirSync, rmSync, watch } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { bringExactness } from '../../bench/support/known-exactness.js';
import { type Random, seededRandom } from '../../src/plugin/test/random-text.js';
import { checkAfterCrash } from './crash-check.js';
import { CrashClient } from './crash-client.js';
import { CrashService, type Victim } from './crash-service.js';
import { aliceKey, bobKey } from './service.js';
import { skipWithoutWeights } from './weights.js';

export interface CrashRunOptions {
  readonly kills: number;
  readonly seed: number;
  readonly engine: 'echo' | 'llama';
  readonly log: (line: string) => void;
  /** Settings besides those of the load. */
  readonly env?: Readonly<Record<string, string>>;
}

export interface CrashRunResult {
  readonly acknowledged: number;
  /** Requests that were running at a kill, by kind, and snapshots that were being written. */
  readonly doubts: Readonly<Record<string, number>>;
  /** The longest time that an engine outlived its service. */
  readonly orphanMsMax: number;
}

interface Load {
  readonly env: Readonly<Record<string, string>>;
  readonly clients: readonly string[];
  readonly texts: readonly string[];
  readonly maxTokens: number;
  /** Each kill happens after fewer acknowledged requests than this, so that a slow machine does as much between kills, */
  readonly acknowledgedMax: number;
  /** and within this many milliseconds of the last of them. */
  readonly killMsMax: number;
  /** Snapshots take so long to write that every other kill can wait for one. */
  readonly writes: boolean;
}

const ONE_IN = 8;
const START_KILL_MS_MAX = 600;
const WRITE_MS_MAX = 60_000;

export async function crashRun({
  kills,
  seed,
  engine,
  log,
  env: more = {},
}: CrashRunOptions): Promise<CrashRunResult> {
  const dataDir = mkdtempSync(join(tmpdir(), 'preface-crash-'));
  if (engine === 'llama') bringExactness(dataDir);
  const random = seededRandom(seed);
  const load = loads[engine];
  const env = { ...load.env, ...more };
  const clients = load.clients.map((name, at) => {
    const { texts, maxTokens } = load;
    return new CrashClient({ name, key: at % 2 ? bobKey : aliceKey, random, texts, maxTokens });
  });
  const doubts: Record<string, number> = {};
  const count = (what: string): void => {
    doubts[what] = (doubts[what] ?? 0) + 1;
  };
  let orphanMsMax = 0;
  let service = new CrashService(dataDir, env);
  const kill = async (victim: Victim = random(2) ? 'service' : 'all') => {
    const outlivedMs = await service.kill(victim);
    orphanMsMax = Math.max(orphanMsMax, outlivedMs);
    service = new CrashService(dataDir, env);
  };
  try {
    for (let at = 0; at < kills; at++) {
      const url = await service.url();
      const randomMoment = async () => {
        await acknowledgements(clients, random(load.acknowledgedMax));
        await delay(random(load.killMsMax));
      };
      const atWrite = load.writes && at % 2 === 0;
      if (atWrite)
        await underLoad(clients, url, snapshotWrite(dataDir, service), () => kill('all'));
      else await underLoad(clients, url, randomMoment(), kill);
      for (const { doubt } of clients) if (doubt !== null) count(doubt.type);
      for (const _ of halfWritten(dataDir)) count('snapshot write');
      if (random(ONE_IN) === 0) await whileItStarts(random, kill);
      const next = await service.url();
      await Promise.all(clients.map((client) => checkAfterCrash(client, next)));
      log(`kill ${at + 1} of ${kills}: ${clients.map(({ known }) => known.size)} caches`);
    }
  } finally {
    await service.kill('all').catch((cause: unknown) => log(String(cause)));
    rmSync(dataDir, { recursive: true, force: true });
  }
  const acknowledged = clients.reduce((sum, client) => sum + client.acknowledged, 0);
  return { acknowledged, doubts, orphanMsMax };
}

function acknowledgements(clients: readonly CrashClient[], count: number): Promise<void> {
  return new Promise((resolve) => {
    let left = count;
    const note = () => {
      if (left-- <= 0) resolve();
    };
    for (const client of clients) client.onAcknowledged = note;
    note();
  });
}

async function underLoad(
  clients: readonly CrashClient[],
  url: string,
  moment: Promise<void>,
  kill: () => Promise<void>,
): Promise<void> {
  const work = Promise.all(clients.map((client) => client.work(url)));
  // A refusal ends the run; without one, the clients work until the service is killed.
  await Promise.race([work, moment]);
  await kill();
  await work;
}

const snapshotsOf = (dataDir: string) => join(dataDir, 'engine', 'snapshots');

/** Stops the service in the middle of the writing of a snapshot, or gives up when it wrote none for a long time. */
async function snapshotWrite(dataDir: string, service: CrashService): Promise<void> {
  const folder = snapshotsOf(dataDir);
  const endMs = performance.now() + WRITE_MS_MAX;
  while (performance.now() < endMs) {
    const file = await nextWrite(folder, endMs - performance.now());
    if (file === null) return;
    await service.stop();
    // It may be over before the service stands still: then the next one is waited for.
    if (existsSync(join(folder, file))) return;
    service.goOn();
  }
}

/** The file that a snapshot is being written to; null when there was none in time. */
async function nextWrite(folder: string, msMax: number): Promise<string | null> {
  const stop = new AbortController();
  const begun = new Promise<string>((resolve) => {
    watch(folder, { signal: stop.signal }, (event, file) => {
      // The file exists before its prefix is evaluated; a change means that the state is being written.
      if (event === 'change' && file?.endsWith('.tmp')) resolve(file);
    });
  });
  const found = await Promise.race([begun, delay(msMax, null, { signal: stop.signal })]);
  stop.abort();
  return found;
}

function halfWritten(dataDir: string): string[] {
  const folder = snapshotsOf(dataDir);
  return existsSync(folder) ? readdirSync(folder).filter((file) => file.endsWith('.tmp')) : [];
}

/** Kills the restarted service before its first output, while it recovers what the last run left. */
async function whileItStarts(random: Random, kill: () => Promise<void>): Promise<void> {
  await delay(random(START_KILL_MS_MAX));
  await kill();
}

function textOf(words: number, at: number): string {
  return Array.from({ length: words }, (_, word) => `word ${word * 7 + at}`).join(' ');
}

const loads: Readonly<Record<CrashRunOptions['engine'], Load>> = {
  echo: {
    env: { PREFACE_ENGINE: 'echo' },
    clients: ['ann', 'bo', 'cy', 'di'],
    texts: Array.from({ length: 6 }, (_, at) => textOf(20 + 100 * at, at)),
    maxTokens: 50,
    acknowledgedMax: 40,
    killMsMax: 20,
    writes: false,
  },
  llama: {
    env: { PREFACE_ENGINE: 'llama', PREFACE_THREADS: '1,1', PREFACE_SLOTS: '2' },
    clients: ['ann', 'bo'],
    texts: [textOf(15, 1), textOf(30, 2), textOf(45, 3)],
    maxTokens: 8,
    acknowledgedMax: 4,
    killMsMax: 1_500,
    writes: true,
  },
};

/** One in so many kills hits a service with the real model, whose snapshots take time to write. */
const REAL_ONE_IN = 20;

async function main(kills: number, seed: number, only: string | undefined): Promise<void> {
  const real = skipWithoutWeights === false ? Math.ceil(kills / REAL_ONE_IN) : 0;
  const shares = { echo: only ? kills : kills - real, llama: only ? kills : real } as const;
  for (const engine of ['echo', 'llama'] as const) {
    if ((only ?? engine) !== engine) continue;
    console.log(`${shares[engine]} kills of the ${engine} engine's service, seed ${seed}`);
    console.log(await crashRun({ engine, kills: shares[engine], seed, log: console.log }));
  }
}

const [, script = '', kills = '200', seed = String(Date.now() % 1_000_000), only] = process.argv;
if (import.meta.url === pathToFileURL(script).href) await main(Number(kills), Number(seed), only);
