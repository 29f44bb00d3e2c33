/**
 * Owns the proof that a node serves the first chat of a cache it never evaluated from the bucket, and when it does not.
 * It must judge by the engine's own count of reused tokens, and by what the bucket was asked.
 */
import { cpSync, existsSync, readdirSync, rmSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { type Asked, asBob, ask, askWith, readyCache, said } from '../support/cache-client.js';
import { S3Server, s3Missing } from '../support/s3-server.js';
import { openService, type TestService, temporaryFolder } from '../support/service.js';
import { TINY_TEMPLATE, writeTinyModel } from '../support/tiny-models.js';
import { until } from '../support/until.js';

t.setTimeout(300_000);

const SYSTEM = { role: 'system', content: 'The sea is wide and the ships are small. '.repeat(12) };

/** @param id of the cache that it names. */
function chat(service: TestService, question: string, id: string | null): Promise<Asked> {
  const messages = [SYSTEM, said(question)];
  const more = { max_tokens: 8, temperature: 0 };
  return id === null ? ask(service, messages, {}, more) : askWith(service, id, messages, more);
}

interface Node extends TestService {
  readonly weights: string;
}

type Env = Readonly<Record<string, string>>;

async function open(t: Test, server: S3Server, weights: string, more: Env = {}): Promise<Node> {
  const own = { PREFACE_ENGINE: 'llama', PREFACE_MEMORY: '256MiB', PREFACE_THREADS: '1,1' };
  const env = { ...server.env(), ...own, PREFACE_WEIGHTS: weights, ...more };
  const service = await openService(t, env);
  return { ...service, dataDir: more.PREFACE_DATA_DIR ?? service.dataDir, weights };
}

async function first(t: Test, server: S3Server): Promise<Node> {
  const weights = join(temporaryFolder(t), 'm.gguf');
  await writeTinyModel(weights, 'llama', { facts: [TINY_TEMPLATE] });
  return await open(t, server, weights);
}

/** With the records of one that is gone, a copy of its weights from another day, and an empty disk. */
async function another(t: Test, server: S3Server, gone: Node, more: Env = {}): Promise<Node> {
  await gone.close();
  const folder = temporaryFolder(t);
  const weights = join(folder, 'm.gguf');
  cpSync(gone.weights, weights);
  utimesSync(weights, 1_000_000, 1_000_000);
  const dataDir = join(folder, 'data');
  cpSync(gone.dataDir, dataDir, { recursive: true });
  rmSync(join(dataDir, 'engine'), { recursive: true });
  return await open(t, server, weights, { PREFACE_DATA_DIR: dataDir, ...more });
}

function kept({ folder }: S3Server): string[] {
  const own = join(folder, 'bucket/p/snapshots');
  return existsSync(own) ? readdirSync(own) : [];
}

const fetches = ({ asked }: S3Server) =>
  asked.filter((line) => line.startsWith('GET /bucket/p/snapshots/')).length;

async function counts(service: TestService): Promise<Record<string, number>> {
  const text = await (await fetch(new URL('/metrics', service.url))).text();
  const found = text.matchAll(/^preface_bucket_prefixes_total\{outcome="(\w+)"\} (\d+)$/gm);
  return Object.fromEntries([...found].map(([, outcome, count]) => [outcome, Number(count)]));
}

t.test('the first chat on a node that never saw the cache', { skip: s3Missing }, async (t) => {
  const server = await S3Server.start(t);
  const one = await first(t, server);
  const cache = await readyCache(one, { messages: [SYSTEM] });
  await until(() => kept(server).length === 1);
  const cold = await chat(one, 'How wide?', null);
  const { id } = cache;

  const two = await another(t, server, one);
  await t.test('is a hit that evaluates only what is new, as a cold run answers', async (t) => {
    const asked = fetches(server);
    const { cache: hit, text } = await chat(two, 'How wide?', id);
    t.same([hit.status, hit['token-saved'], text], ['hit', String(cache.tokens), cold.text]);
    t.same(await counts(two), { fetched: 1 });
    await chat(two, 'How small?', id);
    t.equal(fetches(server), asked + 1, 'now it is here');
    t.equal(kept(server).length, 1, 'and is not sent again');
  });

  await t.test('another owner has another object, which goes with its cache', async (t) => {
    const before = kept(server);
    const bobs = await readyCache(two, { messages: [SYSTEM] }, asBob);
    await until(() => kept(server).length === 2);
    t.not((await chat(two, 'Whose?', bobs.id)).cache.status, 'hit');
    const gone = await two.call('DELETE', `/caching/${bobs.id}`, undefined, asBob);
    t.equal(gone.status, 200);
    await until(() => kept(server).length === 1);
    t.same(kept(server), before);
    t.notMatch(two.log.join('\n'), /The sea is wide/);
  });

  const three = await another(t, server, two);
  await t.test('evaluates where the object is damaged, and sends a whole one', async (t) => {
    const name = `snapshots/${kept(server)[0]}`;
    server.change(name);
    const damaged = server.bytes(name);
    const { cache: miss, text } = await chat(three, 'How wide?', id);
    t.same([miss.status, text], ['miss', cold.text]);
    await until(async () => (await counts(three)).sent === 1);
    t.notOk(server.bytes(name).equals(damaged));
    t.match(await counts(three), { fetched: 1, damaged: 1 });
    t.equal((await chat(three, 'Again?', id)).cache.status, 'hit');
  });

  const four = await another(t, server, three, { PREFACE_SNAPSHOT_BUCKET: '0' });
  await t.test('asks nobody with PREFACE_SNAPSHOT_BUCKET=0', async (t) => {
    const asked = server.asked.filter((line) => line.includes('snapshots')).length;
    t.equal((await chat(four, 'How wide?', id)).cache.status, 'miss');
    t.equal(server.asked.filter((line) => line.includes('snapshots')).length, asked);
  });

  const five = await another(t, server, four);
  await t.test('does not wait for a bucket that is down, which is told once', async (t) => {
    await until(() => server.asked.some((line) => line.includes('uploads=&prefix=p%2F')));
    server.fault = () => 'cut';
    const { status, cache: miss } = await chat(five, 'How wide?', id);
    t.same([status, miss.status], [200, 'miss']);
    t.equal((await chat(five, 'Again?', id)).status, 200);
    t.equal((await fetch(new URL('/ready', five.url))).status, 200);
    const told = five.log.filter((line) => line.includes('none are sent or fetched'));
    t.equal(told.length, 1);
  });
});
