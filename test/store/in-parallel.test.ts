/**
 * Owns the proof that work on many things has ended when its failure is told.
 * It must hold states by gates, never by time.
 */
import t from 'tap';
import { inParallel } from '../../src/admin/in-parallel.js';

t.test('a source that fails waits for what is under way', async (t) => {
  async function* source(): AsyncGenerator<number> {
    yield 1;
    // The first one is under way by then.
    await new Promise((resolve) => setImmediate(resolve));
    throw new Error('the source failed');
  }
  let open = () => {};
  const gate = new Promise<void>((resolve) => {
    open = resolve;
  });
  const events: string[] = [];
  const all = inParallel(source(), 2, async () => {
    await gate;
    events.push('ended');
  }).catch((cause: Error) => events.push(cause.message));
  // All that the failure needs to come through, if nothing held it.
  for (let turn = 0; turn < 5; turn += 1) {
    await new Promise((resolve) => setImmediate(resolve));
  }
  t.same(events, []);
  open();
  await all;
  t.same(events, ['ended', 'the source failed']);
});
