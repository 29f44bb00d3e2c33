/** How a new response finds room among those that an owner has kept. */
import t from 'tap';
import { systemClock } from '../../src/clock.js';
import { Responses } from '../../src/responses/responses.js';
import { MemoryStore } from '../../src/store/memory-store.js';

t.test('older responses go for a new one, and stay where that cannot help', async (t) => {
  const max = () => ({ count: 10, bytes: 4096 });
  const responses = new Responses({
    store: new MemoryStore(),
    clock: systemClock,
    report: (fault) => t.fail('nothing fails', { fault }),
    max,
  });
  t.teardown(() => responses.close());
  const keep = async (digit: number, bytes: number) => {
    const id = `resp_${String(digit).repeat(32)}`;
    await responses.keep('alice', {
      id,
      createdS: Math.floor(systemClock.nowMs() / 1000) + digit,
      previous: null,
      background: false,
      streamed: false,
      input: '[]',
      response: { id, text: 'x'.repeat(bytes) },
      status: 'completed',
    });
    return id;
  };
  const oldest = await keep(1, 1800);
  const newer = await keep(2, 1800);

  await t.rejects(keep(3, 5000), { message: /no room for the response/ }, 'larger than all may be');
  t.equal(responses.get('alice', oldest).id, oldest, 'the oldest is still there');
  t.equal(responses.get('alice', newer).id, newer);

  const third = await keep(4, 1800);
  t.throws(() => responses.get('alice', oldest), 'the oldest has made room');
  t.equal(responses.get('alice', newer).id, newer);
  t.equal(responses.get('alice', third).id, third);
});
