/** Owns the proof that a parsing thread that dies costs its own request a clear error, and nobody else anything. */
import t from 'tap';
import { Parser } from '../../src/parsing/parser.js';
import type { ParseResult, ParseTask } from '../../src/parsing/tasks.js';
import { Pool } from '../../src/pool/pool.js';

const MIB = 2 ** 20;

t.test('a thread whose heap is too small for a body', async (t) => {
  const ended: string[] = [];
  const pool = new Pool<ParseTask, ParseResult>({
    worker: new URL('../../workers/parse.js', import.meta.url),
    threads: 2,
    idleMsMax: 30_000,
    tasksPerThread: 1,
    queueMax: 100,
    sleepsBetweenTasks: true,
    heapBytesMax: 16 * MIB,
    onThreadError: ({ message }) => ended.push(message),
  });
  t.teardown(() => pool.close());
  const parser = new Parser(pool);
  const chat = (text: string) =>
    Buffer.from(`{"model":"m","messages":[{"role":"user","content":"${text}"}]}`);
  const guilty = parser.chat('alice', 'chat', chat('漢'.repeat(2.5 * MIB)), true);
  const beside = parser.chat('bob', 'chat', chat('x'.repeat(100_000)), true);
  await t.rejects(guilty, { name: 'ApiError', status: 500, message: /a worker thread ended/ });
  t.match(await beside, { type: 'plain', settings: { model: 'm' } });
  t.equal(ended.length, 1);
  for (const owner of ['alice', 'bob']) {
    const { type } = await parser.chat(owner, 'chat', chat('y'.repeat(100_000)), true);
    t.equal(type, 'plain', `${owner} goes on`);
  }
});
