/** Owns the proof that what requests go on from comes into memory one at a time, when a thread has a turn for it. */
import t from 'tap';
import { encodeRecord } from '../../src/codec.js';
import { Parser } from '../../src/parsing/parser.js';
import type { ParseResult } from '../../src/parsing/tasks.js';

t.test('kept items are read when their turn has come', async (t) => {
  const tasks: { kind: string; end: (result: ParseResult) => void }[] = [];
  const parser = new Parser({
    run: ({ kind }) => new Promise((end) => tasks.push({ kind, end })),
  });
  const input = JSON.stringify([{ role: 'user', content: 'x'.repeat(100_000) }]);
  const bytes = encodeRecord({ of: 'a', from: 0, input, output: [] });
  let reads = 0;
  const read = () => {
    reads += 1;
    return { before: [{ number: 0, bytes }], referenced: [] };
  };
  const body = Buffer.from('{"model":"m","input":"Hi","previous_response_id":"resp_a"}');
  const joined = Array.from({ length: 3 }, async () => {
    const chat = await parser.chat('alice', 'responses', body, false);
    if (chat.type !== 'goesOn') throw new Error(`it is ${chat.type}`);
    return await chat.join({ bytes: bytes.byteLength, read });
  });
  const ended = joined.map((each) => t.rejects(each, { message: /Not found the model/ }));
  for (let at = 1; at <= joined.length; at += 1) {
    while (tasks.length < at) await new Promise((resolve) => setImmediate(resolve));
    t.equal(reads, at, 'the others wait unread');
    t.equal(tasks[at - 1]?.kind, 'goOn');
    const error = { row: 'notFound', values: { kind: 'model', id: 'm' }, extra: {} } as const;
    tasks[at - 1]?.end({ type: 'error', error } as unknown as ParseResult);
  }
  await Promise.all(ended);
});
