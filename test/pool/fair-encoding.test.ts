import t from 'tap';
import { limits } from '../../src/limits/index.js';
import { FairEncoding } from '../../src/pool/fair-encoding.js';
import type { TokenizeResult, TokenizerRef, TokenizeTask } from '../../src/pool/messages.js';
import { Pool } from '../../src/pool/pool.js';
import { until } from '../support/until.js';

const tokenizer: TokenizerRef = {
  module: new URL('../../plugins/tokenizers/tiktoken/index.js', import.meta.url).href,
  path: null,
};
const encode = (text: string): TokenizeTask => ({ type: 'encode', tokenizer, texts: [text] });
const long = (letter: string) => letter.repeat(limits.encodeChunkLengthMax + 1);

t.test('a short text does not wait for the end of a long one', async (t) => {
  const pool = new Pool<TokenizeTask, TokenizeResult>({
    worker: new URL('../../workers/tokenize.js', import.meta.url),
    threads: 1,
    tasksPerThread: limits.encodeTasksPerThread,
    queueMax: 16,
    sleepsBetweenTasks: true,
    onThreadError: (error) => t.error(error),
  });
  t.teardown(() => pool.close());
  const encoding = new FairEncoding(pool);
  await encoding.run({ type: 'info', tokenizer });
  for (const text of ['lorem ipsum '.repeat(100_000), 'a'.repeat(1_000_000)]) {
    const order: string[] = [];
    const whole = encoding.run(encode(text), 'alice').then(() => order.push('long'));
    await encoding.run(encode('short'), 'bob').then(() => order.push('short'));
    await whole;
    t.same(order, ['short', 'long']);
  }
});

t.test('no owners take all the room of long texts from the next one', async (t) => {
  const ends: (() => void)[] = [];
  const encoding = new FairEncoding({
    run: () =>
      new Promise((resolve) => {
        const result = { type: 'encoded', ids: new Uint32Array(0), lengths: new Uint32Array(1) };
        ends.push(() => resolve(result as TokenizeResult));
      }),
  });
  const piece = encode('x'.repeat(limits.encodeLongLengthMax / 64));
  const running: Promise<unknown>[] = [];
  const taken = async (owner: string) => {
    for (let count = 0; ; count += 1) {
      const run = encoding.run(piece, owner);
      // A refusal is there at once, a place is not.
      const isRefused = await Promise.race([
        run.then(
          () => false,
          () => true,
        ),
        new Promise<boolean>((resolve) => setImmediate(() => resolve(false))),
      ]);
      if (isRefused) return count;
      running.push(run);
    }
  };
  t.equal(await taken('alice'), 32);
  t.equal(await taken('bob'), 16);
  t.equal(await taken('carol'), 8);
  for (let at = 0; at < running.length; at += 1) (await until(() => ends[at]))?.();
  await Promise.all(running);
});

t.test('owners of long texts take turns, and what waits is bounded', async (t) => {
  const starts: string[] = [];
  const ends: (() => void)[] = [];
  const encoding = new FairEncoding({
    run: (task) => {
      starts.push(task.type === 'encode' ? String(task.texts[0] ?? '').charAt(0) : '');
      return new Promise((resolve) => {
        ends.push(() => {
          resolve({ type: 'encoded', ids: new Uint32Array(0), lengths: new Uint32Array(1) });
        });
      });
    },
  });
  const all = [...'aaaaa'].map((letter) => encoding.run(encode(long(letter)), 'alice'));
  all.push(encoding.run(encode(long('b')), 'bob'));
  const large = encode('c'.repeat(limits.encodeLongLengthMax));
  await t.rejects(encoding.run(large, 'carol'), { name: 'ApiError', message: /overloaded/ });
  for (let at = 0; at < all.length; at += 1) {
    (await until(() => ends[at]))?.();
  }
  await Promise.all(all);
  t.equal(starts.join(''), 'aaabaa');
});
