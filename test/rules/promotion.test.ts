/**
 * Owns the proof of when a prefix has come again, and of which kept one goes first.
 */
import t from 'tap';
import { limits } from '../../src/limits/index.js';
import type { PrefixHash } from '../../src/rules/prefix.js';
import { leastWorthFirst, SeenPrefixes, savedMs } from '../../src/rules/promotion.js';

const chain = (text: string) => ['root', ...text].map((_, at) => text.slice(0, at) as PrefixHash);

t.test('a prefix has come again behind another text, or after a while', async (t) => {
  const seen = new SeenPrefixes();
  t.equal(seen.note('alice', chain('abc'), 0), 0, 'for the first time');
  t.equal(seen.note('alice', chain('abcde'), 10), 0, 'a conversation that goes on is in memory');
  t.equal(seen.note('alice', chain('abx'), 20), 2, 'the part before another text');
  t.equal(seen.note('alice', chain('ay'), 30), 1);
  t.equal(seen.note('alice', chain('abcdefg'), 40), 2, 'what has come again stays so');
  t.equal(seen.note('alice', chain('abcdefghi'), 40 + limits.promoteReturnMs), 7, 'after a while');
  t.equal(seen.note('alice', chain('zz'), 50), 0);
});

t.test('what is remembered is bounded, the oldest is forgotten', async (t) => {
  const seen = new SeenPrefixes();
  seen.note('alice', chain('ab'), 0);
  for (let at = 0; at < limits.promoteSeenMax; at++)
    seen.note('alice', ['', `other ${at}`] as PrefixHash[], 0);
  t.equal(seen.note('alice', chain('ax'), 0), 0);
});

t.test('an owner who brings many forgets none of another', async (t) => {
  const seen = new SeenPrefixes();
  seen.note('bob', chain('ab'), 0);
  for (let from = 0; from < 3 * limits.promoteSeenMax; from += limits.messagesMax) {
    const many = Array.from({ length: limits.messagesMax }, (_, at) => `${from + at}`);
    seen.note('alice', many as PrefixHash[], 0);
  }
  t.equal(seen.note('bob', chain('ax'), 0), 1);
});

t.test('of many owners with few each, the one with the most forgets', async (t) => {
  const seen = new SeenPrefixes();
  for (let at = 0; at < limits.promoteSeenMax - 4; at++) seen.note(`owner ${at}`, chain('a'), 0);
  seen.note('alice', chain('abcdefgh'), 0);
  t.equal(seen.note('owner 7', ['', 'a', 'ab'] as PrefixHash[], 0), 0, 'it is known by one text');
  t.equal(seen.note('owner 7', ['', 'a', 'ax'] as PrefixHash[], 0), 1);
});

t.test('a full memory costs a long conversation no more than an empty one', async (t) => {
  const texts = (name: string) =>
    Array.from({ length: limits.messagesMax }, (_, at) => `${name} ${at}` as PrefixHash);
  const full = new SeenPrefixes();
  const noted = 2 * Math.ceil(limits.promoteSeenMax / limits.messagesMax);
  for (let at = 0; at < noted; at++) full.note('alice', texts(`earlier ${at}`), 0);
  const tookMs = (seen: SeenPrefixes, name: string) => {
    const chain = texts(name);
    const before = performance.now();
    seen.note('alice', chain, 0);
    return performance.now() - before;
  };
  // In turns, and the quickest of each counts: a neighbour that takes the time of one has to take it every time.
  let [empty, again] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
  for (let at = 0; at < 8 || (again >= 10 * empty && at < 64); at++) {
    empty = Math.min(empty, tookMs(new SeenPrefixes(), `empty ${at}`));
    again = Math.min(again, tookMs(full, `full ${at}`));
  }
  t.ok(again < 10 * empty, `${again} ms beside ${empty} ms`);
});

t.test('a long prefix pays, one that loads as slowly as it evaluates does not', async (t) => {
  t.equal(savedMs(1_000, 2, 0), 2_000);
  t.ok(savedMs(1_000, 2, 45_000) > 1_900);
  t.ok(savedMs(1_000, 0.05, 45_000) < 0);
});

t.test('the least worth goes first', async (t) => {
  const day = 24 * 60 * 60_000;
  const one = (tokens: number, hits: number, daysAgo: number, bytes: number) => ({
    name: `${tokens} ${hits} ${daysAgo}`,
    tokens,
    hits,
    expirySetMs: (10 - daysAgo) * day,
    snapshot: { bytes, evaluatedTokens: 0 },
  });
  const records = [
    one(1_000, 9, 0, 1_000),
    one(1_000, 9, 4, 1_000),
    one(1_000, 0, 0, 1_000),
    one(1_000, 9, 0, 2_000),
  ];
  const order = leastWorthFirst(records, 10 * day).map((record) => records.indexOf(record));
  t.strictSame(order, [1, 2, 3, 0]);
});
