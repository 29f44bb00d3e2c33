/**
 * Owns the proof of when a prefix has come again, and of which kept one goes first.
 */
import t from 'tap';
import { limits } from '../../src/limits/index.js';
import type { PrefixHash } from '../../src/rules/prefix.js';
import { givingWay, leastWorthFirst, SeenPrefixes, savedMs } from '../../src/rules/promotion.js';

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

t.test('a full memory of many owners costs new ones next to nothing', async (t) => {
  const newOnes = limits.promoteSeenMax / 5;
  // Of the processor, even where others want it. Only the sum is exact: a short span's parts are the kernel's guess,
  // and all of it may count as the system's.
  const tookMs = (seen: SeenPrefixes, name: string, owners: number) => {
    const before = process.cpuUsage();
    for (let at = 0; at < owners; at++) seen.note(`${name} ${at}`, chain('a'), 0);
    const { user, system } = process.cpuUsage(before);
    return (user + system) / 1_000;
  };
  const full = new SeenPrefixes();
  tookMs(full, 'earlier', limits.promoteSeenMax);
  const empty = tookMs(new SeenPrefixes(), 'new', newOnes);
  const again = tookMs(full, 'new', newOnes);
  // A walk over all owners for each of them: ten thousand times as long.
  t.ok(again < 100 * empty, `${again} ms beside ${empty} ms`);
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

t.test('an owner with many pushes out nothing of one with few', async (t) => {
  const one = (owner: string, hits: number, bytes = 10) => ({
    owner,
    tokens: 1_000,
    hits,
    expirySetMs: 0,
    snapshot: { bytes, evaluatedTokens: 0 },
  });
  const many = Array.from({ length: 9 }, (_, at) => one('alice', 100 + at));
  const few = [one('bob', 0), one('bob', 1), one('carol', 0)];
  const room = (bytes: number, count: number) => ({ bytes, count });
  const gone = (bytes: number, count: number) =>
    givingWay([...many, ...few], room(bytes, count), 0);
  t.strictSame(gone(120, 12), [], 'all fit');
  t.strictSame(gone(120, 9), many.slice(0, 3), 'the least worth ones of who has the most');
  t.strictSame(gone(90, 12), many.slice(0, 3), 'by their bytes as well');
  const left = (rest: readonly object[]) =>
    [...many, ...few].filter((each) => !rest.includes(each));
  t.strictSame(left(gone(120, 3)), [many[8], few[1], few[2]], 'one each');
  t.equal(gone(0, 0).length, 12);
  const large = [one('alice', 0, 70), one('bob', 1, 20), one('bob', 0, 20)];
  t.strictSame(givingWay(large, room(100, 9), 0), large.slice(0, 1), 'one that is large alone');
});
