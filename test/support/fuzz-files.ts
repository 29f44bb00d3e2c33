/**
 * Owns the run of damaged documents: randomly changed documents of the tests go through a running service, whose other
 * requests are timed with and without them in turn. It must never go on after a document without a proper answer.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { setPriority } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { limits } from '../../src/limits/index.js';
import { mutation } from '../../src/plugin/test/damage.js';
import { type Random, seededRandom, testSeed } from '../../src/plugin/test/random-text.js';
import { CrashService } from './crash-service.js';
import { form, purpose } from './file-client.js';
import { restedFetch } from './rested-fetch.js';
import { aliceKey, bobKey } from './service.js';
import { TimedChats } from './timed-chats.js';

export interface FuzzOptions {
  /** Ends in `/v1`. */
  readonly url: string;
  readonly mutations: number;
  readonly seed: number;
  /** Uploads at the same time. */
  readonly lanes: number;
  readonly log: (line: string) => void;
  /** The sender gives way to all else from then on, as if it were on another machine: for a process that ends afterwards. */
  readonly givesWay?: boolean;
}

export interface FuzzResult {
  readonly read: number;
  /** How often each reason was given; digits are removed from reasons. */
  readonly refused: Readonly<Record<string, number>>;
  /** 99th percentile of the other requests in milliseconds: without documents, and while documents are read. */
  readonly quietP99Ms: number;
  readonly busyP99Ms: number;
  readonly others: number;
  /** Connections that had rested, and were closed when the next request was sent: each was sent again. */
  readonly lost: number;
}

export interface GoodDocument {
  readonly name: string;
  readonly bytes: Uint8Array;
}

const folder = fileURLToPath(new URL('../../../test/documents', import.meta.url));
const headers = { authorization: `Bearer ${aliceKey}` };
/** Documents of one round; each round is followed by as many other requests without documents. */
const ROUND = 25;
/** The first documents of a service that has just started run through code that no compiler has seen: they are not timed. */
const WARM_UP = 4 * ROUND;
const SENDER_PRIORITY = 10;
const ANSWER_MS_MAX = 10 * 60_000;
/** Less than a service keeps a resting connection: one that is lost earlier is a fault. */
const RESTED_MS_MIN = limits.connectionRestS * 1_000;
/** The most that documents may slow other requests. */
const OTHERS_P99_RATIO_MAX = 2;

export function goodDocuments(): GoodDocument[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name !== 'NOTICE')
    .map(({ name, parentPath }) => ({ name, bytes: readFileSync(join(parentPath, name)) }))
    .sort((one, other) => (one.name < other.name ? -1 : 1));
}

/** @throws Error that names the seed and the number of a document without a proper answer. */
export async function fuzzFiles(options: FuzzOptions): Promise<FuzzResult> {
  const { url, mutations, seed, lanes, log } = options;
  const good = goodDocuments();
  const random = seededRandom(seed);
  const outcomes: Outcome[] = [];
  const quiet: number[] = [];
  const busy: number[] = [];
  let lost = 0;
  const ask = askerOf((restedMs, cause) => {
    lost += 1;
    log(`${cause.message} on a connection that had rested ${Math.round(restedMs)} ms: asked again`);
  });
  const others = new TimedChats({ url, key: bobKey });
  // What is started before does not inherit it.
  if (options.givesWay) setPriority(SENDER_PRIORITY);
  try {
    await others.count(ROUND);
    for (let from = 0; from < mutations; from += ROUND) {
      const count = Math.min(ROUND, mutations - from);
      const documents = Array.from({ length: count }, (_, at) => damaged(good, random, from + at));
      const reading = inLanes(documents, lanes, async (document) => {
        outcomes.push(await outcomeOf(url, ask, document, seed));
      });
      const [beside] = await Promise.all([others.during(reading), reading]);
      if (from < WARM_UP && mutations > WARM_UP) continue;
      busy.push(...beside);
      quiet.push(...(await others.count(beside.length)));
      log(`${from + count} of ${mutations}: p99 ${p99(quiet)} ms quiet, ${p99(busy)} ms busy`);
    }
  } finally {
    await others.close();
  }
  return {
    read: outcomes.filter((outcome) => outcome === null).length,
    refused: counted(outcomes.flatMap((outcome) => outcome ?? [])),
    quietP99Ms: p99(quiet),
    busyP99Ms: p99(busy),
    others: quiet.length + busy.length,
    lost,
  };
}

interface Damaged extends GoodDocument {
  readonly at: number;
}

function damaged(good: readonly GoodDocument[], random: Random, at: number): Damaged {
  const { name = '', bytes = Buffer.alloc(0) } = good[random(good.length)] ?? {};
  return { name, at, bytes: mutation(bytes, random) };
}

/** The reason of the failure; null for a document that was read. */
type Outcome = string | null;

async function outcomeOf(
  url: string,
  answer: Asker,
  { name, at, bytes }: Damaged,
  seed: number,
): Promise<Outcome> {
  const fail = (what: string) => new Error(`seed ${seed}, document ${at} (${name}): ${what}`);
  const made = await answer(`${url}/files`, 'POST', form([purpose, ['file', bytes, name]]));
  if (bytes.length === 0 && made.status === 400) return 'it is empty';
  const { id } = JSON.parse(made.text) as { id?: string };
  if (made.status !== 200 || id === undefined) throw fail(`${made.status} ${made.text}`);
  const content = await answer(`${url}/files/${id}/content`, 'GET');
  const { status, status_details: reason } = JSON.parse(
    (await answer(`${url}/files/${id}`, 'GET')).text,
  ) as { status: string; status_details: string };
  await answer(`${url}/files/${id}`, 'DELETE');
  if (content.status === 200 && status === 'ok') {
    if (/\S/.test((JSON.parse(content.text) as { content: string }).content)) return null;
  } else if (content.status === 500 && status === 'error' && reason !== '') {
    if (content.text.includes('Failed to extract file'))
      return reason.replace(/([0-9a-f]{2} ){3,}[0-9a-f]{2}|\d+/g, '#');
  }
  throw fail(`${content.status} ${status} ${content.text.slice(0, 200)}`);
}

type Asker = (
  address: string,
  method: string,
  body?: FormData,
) => Promise<{ status: number; text: string }>;

function askerOf(lost: (restedMs: number, cause: Error) => void): Asker {
  const patience = { restedMsMin: RESTED_MS_MIN, lost };
  return async (address, method, body) => {
    const signal = AbortSignal.timeout(ANSWER_MS_MAX);
    const init = { method, headers, signal, ...(body && { body }) };
    const response = await restedFetch(address, init, patience);
    return { status: response.status, text: await response.text() };
  };
}

async function inLanes<Item>(
  items: readonly Item[],
  lanes: number,
  act: (item: Item) => Promise<void>,
): Promise<void> {
  const waiting = [...items];
  const work = async () => {
    for (let item = waiting.shift(); item !== undefined; item = waiting.shift()) await act(item);
  };
  await Promise.all(Array.from({ length: lanes }, work));
}

function p99(times: readonly number[]): number {
  const sorted = times.toSorted((one, other) => one - other);
  return Math.round((sorted[Math.floor(sorted.length * 0.99)] ?? 0) * 10) / 10;
}

function counted(texts: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const text of texts) counts[text] = (counts[text] ?? 0) + 1;
  return counts;
}

async function main(mutations: number): Promise<void> {
  const { mkdtempSync, rmSync } = await import('node:fs');
  const { tmpdir } = await import('node:os');
  const dataDir = mkdtempSync(join(tmpdir(), 'preface-fuzz-'));
  const seed = testSeed();
  console.log(`${mutations} damaged documents, TEST_SEED=${seed}`);
  const service = new CrashService(dataDir, {});
  // Its process group is separate, so that a signal to this group does not reach it.
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => void service.kill('all').finally(() => process.exit(1)));
  }
  try {
    const url = await service.url();
    const options = { url, mutations, seed, lanes: 4, log: console.log, givesWay: true };
    const result = await fuzzFiles(options);
    console.log(result);
    const ratio = result.busyP99Ms / result.quietP99Ms;
    console.log(`other requests: p99 ${ratio.toFixed(2)} times that of a quiet service`);
    // Written so that NaN, a ratio without timed requests, also exceeds the bound.
    if (!(ratio <= OTHERS_P99_RATIO_MAX)) {
      console.log(`failed: ${ratio.toFixed(2)} is over the bound of ${OTHERS_P99_RATIO_MAX}`);
      process.exitCode = 1;
    }
  } finally {
    await service.kill('all');
    rmSync(dataDir, { recursive: true, force: true });
  }
}

const [, script = '', mutations = '2000'] = process.argv;
if (import.meta.url === pathToFileURL(script).href) await main(Number(mutations));
