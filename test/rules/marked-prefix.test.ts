/** Owns the proof that marked prefixes are told apart, that all shorter ones are found, and where their tokens end. */
import t from 'tap';
import { age, type CacheRecord, dueMs } from '../../src/rules/cache-state.js';
import { markedHashes, prefixAt } from '../../src/rules/marked-prefix.js';
import { settledIds } from '../../src/rules/open-prefix.js';
import { canonicalPrefix, type PrefixHash, prefixChain } from '../../src/rules/prefix.js';
import { lifeMetadata, lifeOf } from '../../src/rules/prefix-life.js';

const of = { owner: 'alice', family: 'svc-v1' };
const part = (text: string) => ({ type: 'text', text });
const system = { role: 'system', content: [part('a'), part('b'), part('c')] };
const user = { role: 'user', content: 'u' };
const tool = { type: 'function', function: { name: 'f' } };
const whole = canonicalPrefix([system, user], [tool]);
const mark = (messages: number, parts: number | null) => ({ messages, parts, ttlS: 300 });

t.test(
  'a whole prefix is that of a cache by name, one that ends inside a message says so',
  async (t) => {
    const closed = canonicalPrefix([system], [tool]);
    t.same(prefixAt(whole, mark(1, null)), closed);
    const open = (content: unknown) =>
      canonicalPrefix([{ role: 'system', content, partial: true }], [tool]);
    t.same(prefixAt(whole, mark(0, 1)), open('a'));
    t.same(prefixAt(whole, mark(0, 2)), open([part('a'), part('b')]));
    t.same(prefixAt(whole, mark(0, null)), canonicalPrefix([], [tool]));
  },
);

t.test('the hashes are those of the prefixes, and all shorter ones follow', async (t) => {
  const marks = [mark(0, null), mark(0, 2), mark(2, null)];
  const { marks: own, back } = markedHashes(of, whole, marks, 100);
  const hashAt = (messages: number, parts: number | null) =>
    prefixChain(of, prefixAt(whole, mark(messages, parts))).at(-1);
  t.same(own, [hashAt(0, null), hashAt(0, 2), hashAt(2, null)]);
  t.same(back, [hashAt(2, null), hashAt(1, null), hashAt(0, 2), hashAt(0, 1), hashAt(0, null)]);
  t.same(markedHashes(of, whole, marks, 2).back, back.slice(0, 2));
  t.equal(new Set(back).size, 5);
  const other = markedHashes({ ...of, owner: 'bob' }, whole, marks, 100);
  t.notOk(
    other.back.some((hash) => back.includes(hash)),
    'the owner is in each',
  );
});

t.test('without tools, nothing at all is no prefix', async (t) => {
  const plain = canonicalPrefix([user], []);
  t.equal(markedHashes(of, plain, [mark(1, null)], 100).back.length, 1);
  t.same(markedHashes(of, plain, [], 100), { marks: [], back: [] });
});

t.test('the tokens of an open prefix end before its last word', async (t) => {
  const bytes = (id: number) => new Uint8Array([id]);
  const settled = (text: string) =>
    Buffer.from(settledIds(Uint32Array.from(Buffer.from(text)), bytes, 8)).toString();
  t.equal(settled('one two'), 'one');
  t.equal(settled('one two\nthree'), 'one two');
  t.equal(settled('abcdefghijkl'), 'abcd', 'a word that is too long is cut anywhere');
  t.equal(settled('abc'), '');
});

t.test(
  'what a chat left behind is gone when it expires, and only that has a life of its own',
  async (t) => {
    const record: CacheRecord = {
      ...of,
      id: 'cache-1',
      hash: 'h' as PrefixHash,
      name: '',
      description: '',
      metadata: lifeMetadata(300),
      tokens: 1,
      bytes: 1,
      status: 'ready',
      generation: 1,
      error: null,
      contentFault: null,
      expiryFault: null,
      createdS: 1_000,
      expiredAtS: 1_300,
      expirySetMs: 1_000_000,
      hits: 0,
      tokensSaved: 0,
      lastMissReason: null,
      remade: false,
      ephemeral: true,
    };
    const keepMs = 86_400_000;
    t.equal(age(record, 1_299_999, keepMs), record);
    t.equal(age(record, 1_300_000, keepMs), null);
    t.equal(age({ ...record, ephemeral: false }, 1_300_000, keepMs)?.status, 'inactive');
    t.equal(dueMs(record, keepMs), 1_300_000);
    t.equal(dueMs({ ...record, status: 'error' }, keepMs), 1_300_000);
    t.equal(lifeOf(record), 300);
    t.equal(lifeOf({ ...record, ephemeral: false }), null);
  },
);
