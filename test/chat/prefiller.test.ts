import t from 'tap';
import { Catalog, type ServedModel } from '../../src/chat/catalog.js';
import { EnginePrefiller } from '../../src/chat/prefiller.js';
import { systemClock } from '../../src/clock.js';
import { encodeBody } from '../../src/parsing/stored-body.js';
import { defaultPolicy } from '../../src/rules/account-policy.js';
import { apiError } from '../support/api-error.js';
import { nearParser } from '../support/near-talk.js';

const forEver = new AbortController().signal;
const stored = encodeBody({ messages: [], tools: [] });
const task = { owner: 'alice', family: 'm', snapshot: 's', tokens: 100, stored, pin: true };

/** Three windows, and what is open to everybody. */
function world(open: readonly string[] | null) {
  const asked: string[] = [];
  const prompts = { prefixIds: async () => new Uint32Array(100) };
  const model = (id: string, window: number) => {
    const inference = {
      prefill: async (sent: { model: string }) => {
        asked.push(sent.model);
        return { tokens: 100 };
      },
    };
    const engine = { conversation: false };
    return { id, family: 'm', window, prompts, inference, engine } as unknown as ServedModel;
  };
  const models = [model('m-large', 400), model('m-small', 100), model('m-middle', 200)];
  const policy = { ...defaultPolicy, models: open };
  const catalog = new Catalog(models);
  const prefiller = new EnginePrefiller(catalog, systemClock, () => policy, nearParser);
  return { asked, policy, models, catalog, prefiller };
}

t.test('a prefix is prefilled on the smallest model that holds it and is open', async (t) => {
  for (const [open, chosen] of [
    [null, 'm-middle'],
    [['m-auto'], 'm-middle'],
    [['m-small', 'm-large'], 'm-large'],
  ] as const) {
    const { asked, catalog, models, policy, prefiller } = world(open);
    t.ok(prefiller.isOpen('alice', 'm'));
    await prefiller.prefill(task, forEver);
    t.strictSame(asked, [chosen]);
    const own = models.filter((model) => catalog.prefills(policy, model, 100));
    t.strictSame(
      own.map(({ id }) => id),
      [chosen],
      'a chat on that one must find it',
    );
  }
});

t.test('nothing that is open holds it, or nothing is open at all', async (t) => {
  const small = world(['m-small']);
  await t.rejects(small.prefiller.prefill(task, forEver), apiError('inputTooLong'));
  const closed = world(['other']);
  t.notOk(closed.prefiller.isOpen('alice', 'm'));
  await t.rejects(closed.prefiller.prefill(task, forEver), apiError('modelNotFound'));
  t.strictSame([...small.asked, ...closed.asked], []);
});
