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
