/**
 * Owns the proof that small requests cannot bring large caches into memory unseen, nor have the tokens of failed ones counted.
 * It must never depend on how long anything takes.
 */
import t from 'tap';
import { ApiError, toErrorValue } from '../../src/errors.js';
import { limits } from '../../src/limits/index.js';
import { Parser } from '../../src/parsing/parser.js';
import { encodeBody } from '../../src/parsing/stored-body.js';
import type { ParseResult } from '../../src/parsing/tasks.js';
import type { PrefixHash } from '../../src/rules/prefix.js';
import { createCache, readyCache, said, untilCache } from '../support/cache-client.js';
import { openService } from '../support/service.js';

t.setTimeout(240_000);

const MIB = 2 ** 20;
const SENT = 24;
/** A machine that is slow to send may end each before the next one comes: then they are sent again. */
const CROWDS_MAX = 10;
const service = await openService(t);
/** Large, but for its text. */
const bulky = { ...said('Hi'), x: 'x'.repeat(7.5 * MIB) };
const large = await readyCache(service, { messages: [bulky] });
const small = await readyCache(service, { messages: [said('small')] });

const diff = (one: string, other: string) => service.call('GET', `/caching/${one}/diff/${other}`);
const derive = (base: string, content: string) =>
  service.call('POST', '/caching', { base, messages: [said(content)] });

/** Sends them all at once, until one finds no room. @returns how many of the last crowd were answered with each status. */
async function sendMany(send: (at: number) => Promise<Response>): Promise<Map<number, number>> {
  let counts = await sendOnce(send);
  for (let crowds = 1; crowds < CROWDS_MAX && !counts.has(429); crowds += 1)
    counts = await sendOnce(send);
  return counts;
}

async function sendOnce(send: (at: number) => Promise<Response>): Promise<Map<number, number>> {
  const counts = new Map<number, number>();
  const count = async (at: number) => {
    const response = await send(at);
    await response.arrayBuffer();
    counts.set(response.status, (counts.get(response.status) ?? 0) + 1);
  };
  await Promise.all(Array.from({ length: SENT }, (_, at) => count(at)));
  return counts;
}

t.test('caches that are compared count as memory of their account', async (t) => {
  const counts = await sendMany(() => diff(large.id, large.id));
  const [passed = 0, refused = 0] = [counts.get(200), counts.get(429)];
  t.equal(passed + refused, SENT, JSON.stringify([...counts]));
  t.ok(passed > 0 && refused > 0, `${refused} of ${SENT} are refused`);
  t.equal((await diff(small.id, small.id)).status, 200);
  const alone = await diff(large.id, large.id);
  t.equal(alone.status, 200, 'and the room is given back');
  t.match(await alone.json(), { shared_messages: 1, shared_tokens: large.tokens });
});

t.test('so does a cache that others go on from', async (t) => {
  const counts = await sendMany((at) => derive(large.id, `more ${at}`));
  const [passed = 0, refused = 0] = [counts.get(200), counts.get(429)];
  t.equal(passed + refused, SENT, JSON.stringify([...counts]));
  t.ok(passed > 0 && refused > 0, `${refused} of ${SENT} are refused`);
  t.equal((await derive(small.id, 'more')).status, 200);
  t.equal((await derive(large.id, 'alone')).status, 200, 'and the room is given back');
});

t.test('tokens of a cache that failed are not compared', async (t) => {
  const long = said('a'.repeat(limits.cacheTokensMax + 1));
  const { id, tokens } = await createCache(service, { messages: [long] });
  t.ok(tokens > limits.cacheTokensMax);
  const early = await diff(id, id);
  t.match(await early.json(), { shared_messages: 1, shared_tokens: 0 }, 'whatever its status');
  await untilCache(service, id, { status: 'error' });
  for (const other of [id, small.id]) {
    t.match(await (await diff(id, other)).json(), { a: { id, tokens }, shared_tokens: 0 });
    t.match(await (await diff(other, id)).json(), { b: { id, tokens }, shared_tokens: 0 });
  }
});

/** A small chat, whose cache is large: one that is compared with it, or one that begins with it. */
async function chatWith(parser: Parser, owner: string, message: object) {
  const body = Buffer.from(
    JSON.stringify({ model: 'svc-v1-8k', messages: [message, said('more')] }),
  );
  const opened = await parser.chat(owner, 'chat', body, true);
  if (opened.type === 'goesOn') throw new Error('it goes on from nothing');
  const noTalk = () => {
    throw new Error('its messages are not there yet');
  };
  return {
    talk: opened.type === 'plain' ? opened.talk : { difference: noTalk },
    join: opened.type === 'cached' ? opened.join : noTalk,
  };
}

t.test('what waits for its turn is not read', async (t) => {
  let open = () => {};
  const gate = new Promise<void>((resolve) => {
    open = resolve;
  });
  const error = toErrorValue(new ApiError('overloaded'));
  const run = async (): Promise<ParseResult> => {
    await gate;
    return { type: 'error', error };
  };
  const stored = encodeBody({ messages: ['x'.repeat(1000)], tools: [] });
  let reads = 0;
  const read = () => {
    reads += 1;
    return stored;
  };
  const body = { bytes: stored.byteLength, read };
  const parser = new Parser({ run }, stored.byteLength - 1);
  const wanted = Buffer.from(JSON.stringify({ base: 'x', messages: [said('more')] }));
  const find = async () => ({ id: 'x', family: 'svc-v1', ...body });
  const from = { owner: 'carol', family: 'svc-v1', hash: 'h' as PrefixHash, stored: body };
  const asked = [1, 2, 3].flatMap((): Promise<unknown>[] => [
    parser.differ('alice', body, body),
    parser.create('bob', wanted, find),
    chatWith(parser, 'carol', said('Hi')).then(({ talk }) => talk.difference(from)),
    chatWith(parser, 'dora', { role: 'cache', content: 'cache_id=x' }).then(({ join }) =>
      join(body),
    ),
    parser.open('erin', body),
  ]);
  await new Promise(setImmediate);
  t.equal(reads, 3, 'one comparison and one derived cache have the two threads');
  open();
  await Promise.allSettled(asked);
  t.equal(reads, 18);
});
