/**
 * Owns the proof that no owner learns by time what another has: a prompt, a schema, a cache, a file.
 * It must never say something by chance or by load: what another has and what nobody has are asked for in turns of random
 * order, and a test of ranks compares the pairs.
 *
 * Without a leak the two of a pair differ by their order alone, and a coin decides the order: the sign of each difference
 * is a coin's too, whatever the machine does meanwhile. So the chance to fail is that of the test of ranks, for any load,
 * and it is less than one in a million for the whole file: `LEAK_Z` is passed by chance once in 47 million looks, and there
 * are at most `LOOKS_MAX` for each of five kinds. What looks like a leak is looked at again with more pairs, so that a
 * small one is seen as well.
 */
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { type Random, seededRandom, testSeed } from '../../src/plugin/test/random-text.js';
import { form, purpose } from '../support/file-client.js';
import { bobKey, temporaryFolder } from '../support/service.js';
import { type ServiceProcess, startServiceProcess } from '../support/service-process.js';
import { TINY_TEMPLATE, writeTinyModel } from '../support/tiny-models.js';

t.setTimeout(590_000);

/** Of one look; each look is at all pairs so far. */
const ROUNDS = 48;
const LOOKS_MAX = 8;
/** Two-sided: by chance once in 47 million looks. */
const LEAK_Z = 5.6;
/** Below it there is nothing to look at again: by chance it is passed at one look in 370. */
const SUSPECT_Z = 3;
/** What an owner has must be told apart from what nobody has, or the test would see no leak. */
const Z_OWN_MIN = 3;
/** A busy machine hides what is small for so long at most: more pairs show it, where it is there. */
const LOOKS_OWN_MAX = 8;

interface Kind {
  /** One of endlessly many contents, each of its own. What this process does for it is not part of the time. */
  body(content: number): Sendable;
  send(key: string, body: Sendable): Promise<void>;
  /** Whether an owner is answered so much sooner where it had the same before that a busy machine cannot hide it. */
  readonly isReused: boolean;
}

type Sendable = string | FormData;

/** z of Wilcoxon's test of signed ranks: large where the differences are above 0. */
function signedRankZ(differences: readonly number[]): number {
  const ranked = differences.toSorted((a, b) => Math.abs(a) - Math.abs(b));
  const above = ranked.reduce((sum, each, at) => (each > 0 ? sum + at + 1 : sum), 0);
  const n = ranked.length;
  const mean = (n * (n + 1)) / 4;
  return (above - mean) / Math.sqrt((n * (n + 1) * (2 * n + 1)) / 24);
}

/** @returns how much longer `prober` waited for what nobody has, than for what `holder` has; one figure a round. */
async function waits(
  kind: Kind,
  [holder, prober]: readonly [string, string],
  random: Random,
  from: number,
): Promise<number[]> {
  const differences: number[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const [held, fresh] = [from + 2 * round, from + 2 * round + 1];
    await kind.send(holder, kind.body(held));
    const heldFirst = random(2) === 0;
    const bodies = (heldFirst ? [held, fresh] : [fresh, held]).map((content) => kind.body(content));
    const tookMs: number[] = [];
    for (const body of bodies) {
      const beganMs = performance.now();
      await kind.send(prober, body);
      tookMs.push(performance.now() - beganMs);
    }
    const [first = 0, second = 0] = tookMs;
    differences.push(heldFirst ? second - first : first - second);
  }
  return differences;
}

async function compare(t: Test, kinds: Record<string, Kind>, aliceKey: string): Promise<void> {
  const seed = testSeed();
  t.comment(`TEST_SEED=${seed}`);
  const random = seededRandom(seed);
  let from = 1;
  /** Looks until it `isDecided`. */
  const z = async (
    what: string,
    [kind, holder]: readonly [Kind, string],
    looksMax: number,
    isDecided: (z: number) => boolean,
  ) => {
    const differences: number[] = [];
    let seen = 0;
    for (let look = 0; look < looksMax && (look === 0 || !isDecided(seen)); look += 1) {
      differences.push(...(await waits(kind, [holder, bobKey], random, from)));
      from += 2 * ROUNDS;
      seen = signedRankZ(differences);
    }
    const medianMs = differences.toSorted((a, b) => a - b)[differences.length >> 1] ?? 0;
    const said = `${what}: z ${seen.toFixed(2)}, ${medianMs.toFixed(3)} ms in ${differences.length} rounds`;
    t.comment(said);
    return { seen, said: `seed ${seed}: ${said}` };
  };
  for (const [name, kind] of Object.entries(kinds)) {
    const isSure = (seen: number) => Math.abs(seen) < SUSPECT_Z || Math.abs(seen) >= LEAK_Z;
    const foreign = await z(`${name} of another`, [kind, aliceKey], LOOKS_MAX, isSure);
    t.ok(Math.abs(foreign.seen) < LEAK_Z, foreign.said);
    if (!kind.isReused) continue;
    const isSeen = (seen: number) => seen > Z_OWN_MIN;
    const own = await z(`${name} of one's own`, [kind, bobKey], LOOKS_OWN_MAX, isSeen);
    t.ok(isSeen(own.seen), own.said);
  }
}

/** A text that begins with its number, so that no two have a prefix in common. */
function textOf(content: number, length: number): string {
  const random = seededRandom(content);
  let text = `${content} `;
  while (text.length < length) text += `${random(1e9).toString(36)} `;
  return text;
}

/** Of requests to this path. */
function kindAt(
  service: ServiceProcess,
  path: string,
  body: (content: number) => object,
  isReused = false,
): Kind {
  const send = async (key: string, sent: Sendable) => {
    const type = typeof sent === 'string' ? { 'content-type': 'application/json' } : {};
    const headers = { authorization: `Bearer ${key}`, ...type };
    const response = await fetch(`${service.url}${path}`, { method: 'POST', headers, body: sent });
    const text = await response.text();
    if (response.status !== 200) throw new Error(`${response.status} ${text}`);
  };
  const sendable = (content: number) => {
    const made = body(content);
    return made instanceof FormData ? made : JSON.stringify(made);
  };
  return { body: sendable, send, isReused };
}

const user = (content: string) => [{ role: 'user', content }];

t.test('on the echo engine', async (t) => {
  const service = await startServiceProcess(t, {});
  const estimate = '/tokenizers/estimate-token-count';
  const kinds = {
    text: kindAt(service, estimate, (content) => ({
      model: 'svc-v1-128k',
      messages: user(textOf(content, 40_000)),
    })),
    cache: kindAt(service, '/caching', (content) => ({
      model: 'svc-v1',
      messages: user(textOf(content, 4_000)),
    })),
    file: kindAt(service, '/files', (content) =>
      form([purpose, ['file', textOf(content, 20_000), 'a.txt']]),
    ),
  };
  await compare(t, kinds, service.key);
});

t.test('on a small model', async (t) => {
  const weights = join(temporaryFolder(t), 'tiny.gguf');
  await writeTinyModel(weights, 'llama', { facts: [TINY_TEMPLATE] });
  const env = { PREFACE_WEIGHTS: weights, PREFACE_MEMORY: '256MiB', PREFACE_THREADS: '1,1' };
  const service = await startServiceProcess(t, {}, env);
  const model = 'svc-v1-8k';
  const format = (content: number) => {
    const values = textOf(content, 6_000).split(' ');
    const schema = { type: 'object', properties: { a: { enum: values } }, required: ['a'] };
    return { type: 'json_schema', json_schema: { name: 's', strict: true, schema } };
  };
  const path = '/chat/completions';
  const prompt = (content: number) => ({
    model,
    // So long that an evaluation is told from a reuse, and no longer: it takes most of the time of this file.
    messages: user(textOf(content, 1_000)),
    max_tokens: 1,
  });
  const schema = (content: number) => ({
    model,
    messages: user('Hi'),
    max_tokens: 4,
    response_format: format(content),
  });
  const kinds = {
    prompt: kindAt(service, path, prompt, true),
    schema: kindAt(service, path, schema, true),
  };
  await kinds.prompt.send(service.key, kinds.prompt.body(0));
  await compare(t, kinds, service.key);
});
