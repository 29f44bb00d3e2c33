/**
 * Owns the proof that a prefix is never kept at the cost of the chat it came with.
 */
import t from 'tap';
import type { RunningChat } from '../../src/chat/generation.js';
import { Promotion, PromotionMemory, type PromotionOpening } from '../../src/chat/promotion.js';
import { SimulatedClock } from '../support/simulated-clock.js';

const TOKENS = 1_000;
const caches = {
  promoted: { isOn: true, isEmpty: false, has: () => false },
  live: async () => null,
};
const slow = { started: true, reusedTokens: 0, spans: { prefillUs: 60_000_000 } };

interface Faked {
  readonly chain: () => Promise<string[]>;
  readonly hasLargeImages?: boolean;
  readonly bodies?: () => Promise<never[]>;
}

function opening(talk: Faked, reported: unknown[] = []) {
  const model = { id: 'm', family: 'svc-v1' };
  const report = (fault: unknown) => reported.push(fault);
  const all = { owner: 'alice', model, ids: new Uint32Array(TOKENS), talk, report };
  return all as unknown as PromotionOpening;
}

const newPromotion = (memory = new PromotionMemory()) =>
  new Promotion(caches as never, new SimulatedClock(), memory);

t.test('a prefix that cannot be looked for costs the chat nothing', async (t) => {
  const reported: unknown[] = [];
  const broken = new Error('the conversation cannot be written');
  const chain = () => Promise.reject(broken);
  t.equal(await newPromotion().open(opening({ chain }, reported)), null);
  t.same(reported, [broken]);
});

for (const hasLargeImages of [false, true]) {
  t.test(`what came again ${hasLargeImages ? 'with' : 'without'} large images`, async (t) => {
    const promotion = newPromotion();
    let asked = 0;
    const bodies = async () => {
      asked += 1;
      return [];
    };
    const said = (text: string) =>
      opening({ hasLargeImages, bodies, chain: async () => ['', 'a', text] });
    const first = await promotion.open(said('b'));
    await first?.settle(slow as unknown as RunningChat, true);
    await promotion.open(said('b'));
    t.equal(asked, 0, 'it did not come again yet');
    t.ok(await promotion.open(said('c')));
    t.equal(asked, hasLargeImages ? 0 : 1);
  });
}

t.test('what a chat of one shard cost is known to the others', async (t) => {
  const memory = new PromotionMemory();
  const [one, other] = [newPromotion(memory), newPromotion(memory)];
  let asked = 0;
  const bodies = async () => {
    asked += 1;
    return [];
  };
  const said = (text: string) => opening({ bodies, chain: async () => ['', 'a', text] });
  const first = await one.open(said('b'));
  await first?.settle(slow as unknown as RunningChat, true);
  await other.open(said('b'));
  await other.open(said('c'));
  t.equal(asked, 1, 'so that a prefix that comes again there is worth keeping at once');
});
