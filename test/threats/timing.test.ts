/**
 * Owns the proof that no owner learns by time what another has: a prompt, a schema, a cache, a file.
 * It must never say something by chance or by load: what another has and what nobody has are asked for in turns of random
 * order, and a test of ranks compares the pairs.
 */
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { type Random, seededRandom, testSeed } from '../../src/plugin/test/random-text.js';
import { form, purpose } from '../support/file-client.js';
import { bobKey, temporaryFolder } from '../support/service.js';
import { type ServiceProcess, startServiceProcess } from '../support/service-process.js';
import { TINY_TEMPLATE, writeTinyModel } from '../support/tiny-models.js';

t.setTimeout(480_000);

const ROUNDS = 48;
/** A busy machine hides what is small for so long at most: more pairs show it, where it is there. */
const ROUNDS_OWN_MAX = 5 * ROUNDS;
/** By chance: less than one run in ten million, for each kind. */
const Z_MAX = 5.4;
/** What an owner has must be told apart from what nobody has, or the test would see no leak. */
const Z_OWN_MIN = 3;

interface Kind {
  /** One of endlessly many contents, each of its own. */
  send(key: string, content: number): Promise<void>;
  /** Whether an owner is answered so much sooner where it had the same before that a busy machine cannot hide it. */
  readonly isReused: boolean;
}

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
    await kind.send(holder, held);
    const heldFirst = random(2) === 0;
    const tookMs = new Map<number, number>();
    for (const content of heldFirst ? [held, fresh] : [fresh, held]) {
      const beganMs = performance.now();
      await kind.send(prober, content);
      tookMs.set(content, performance.now() - beganMs);
    }
    differences.push((tookMs.get(fresh) ?? 0) - (tookMs.get(held) ?? 0));
  }
  return differences;
}

async function compare(t: Test, kinds: Record<string, Kind>, aliceKey: string): Promise<void> {
  const seed = testSeed();
  t.comment(`TEST_SEED=${seed}`);
  const random = seededRandom(seed);
  let from = 0;
  const measured = async (kind: Kind, holder: string) => {
    const differences = await waits(kind, [holder, bobKey], random, from);
    from += 2 * ROUNDS;
    return differences;
  };
  for (const [name, kind] of Object.entries(kinds)) {
    const foreign = signedRankZ(await measured(kind, aliceKey));
    t.comment(`${name} of another: z ${foreign.toFixed(2)}`);
    t.ok(Math.abs(foreign) < Z_MAX, `seed ${seed}: ${name} of another: z ${foreign.toFixed(2)}`);
    if (!kind.isReused) continue;
    const differences: number[] = [];
    let own = 0;
    while (own <= Z_OWN_MIN && differences.length < ROUNDS_OWN_MAX) {
      differences.push(...(await measured(kind, bobKey)));
      own = signedRankZ(differences);
    }
    t.comment(`${name} of one's own: z ${own.toFixed(2)} in ${differences.length} rounds`);
    t.ok(own > Z_OWN_MIN, `seed ${seed}: ${name} of one's own: z ${own.toFixed(2)}`);
  }
}

/** A text that begins with its number, so that no two have a prefix in common. */
function textOf(content: number, length: number): string {
  const random = seededRandom(content);
  let text = `${content} `;
  while (text.length < length) text += `${random(1e9).toString(36)} `;
  return text;
}

async function post(service: ServiceProcess, key: string, path: string, body: object) {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  const sent = { method: 'POST', headers, body: JSON.stringify(body) };
  const response = await fetch(`${service.url}${path}`, sent);
  const text = await response.text();
  if (response.status !== 200) throw new Error(`${response.status} ${text}`);
}

function estimates(service: ServiceProcess, model: string): Kind {
  const send = (key: string, content: number) => {
    const messages = [{ role: 'user', content: textOf(content, 40_000) }];
    return post(service, key, '/tokenizers/estimate-token-count', { model, messages });
  };
  return { send, isReused: false };
}

t.test('on the echo engine', async (t) => {
  const service = await startServiceProcess(t, {});
  const caches = (key: string, content: number) => {
    const messages = [{ role: 'user', content: textOf(content, 4_000) }];
    return post(service, key, '/caching', { model: 'svc-v1', messages });
  };
  const files = async (key: string, content: number) => {
    const body = form([purpose, ['file', textOf(content, 20_000), 'a.txt']]);
    const headers = { authorization: `Bearer ${key}` };
    const response = await fetch(`${service.url}/files`, { method: 'POST', headers, body });
    if (response.status !== 200) throw new Error(await response.text());
    await response.text();
  };
  const kinds = {
    text: estimates(service, 'svc-v1-128k'),
    cache: { send: caches, isReused: false },
    file: { send: files, isReused: false },
  };
  await compare(t, kinds, service.key);
});

t.test('on a small model', async (t) => {
  const weights = join(temporaryFolder(t), 'tiny.gguf');
  await writeTinyModel(weights, 'llama', { facts: [TINY_TEMPLATE] });
  const env = { PREFACE_WEIGHTS: weights, PREFACE_MEMORY: '256MiB' };
  const service = await startServiceProcess(t, {}, env);
  const chat = (key: string, content: string, more: object) => {
    const messages = [{ role: 'user', content }];
    return post(service, key, '/chat/completions', {
      model: 'svc-v1-8k',
      messages,
      max_tokens: 1,
      ...more,
    });
  };
  const schema = (content: number) => {
    const values = textOf(content, 6_000).split(' ');
    const json = { type: 'object', properties: { a: { enum: values } }, required: ['a'] };
    return { name: 's', strict: true, schema: json };
  };
  const kinds = {
    prompt: {
      send: (key: string, content: number) => chat(key, textOf(content, 3_000), {}),
      isReused: true,
    },
    schema: {
      send: (key: string, content: number) =>
        chat(key, 'Hi', {
          response_format: { type: 'json_schema', json_schema: schema(content) },
          max_tokens: 4,
        }),
      isReused: true,
    },
  };
  await chat(service.key, 'Hi', {});
  await compare(t, kinds, service.key);
});
