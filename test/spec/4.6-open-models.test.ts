/**
 * §4.6, §5: a cache is for models that are open to its owner, and is prefilled where its owner can chat.
 */
import t from 'tap';
import { asBob, ask, askWith, hitHeaders, readyCache, said } from '../support/cache-client.js';
import { openWithSettings } from '../support/chat-client.js';

t.setTimeout(120_000);

const service = await openWithSettings(t, {
  accounts: { users: { alice: { models: ['svc-v1-32k'] }, bob: { models: ['other'] } } },
});
const prefix = said('What both would begin with.');

t.test('a family without an open model is as unknown as its models', async (t) => {
  const body = { model: 'svc-v1', messages: [prefix] };
  const refused = await service.call('POST', '/caching', body, asBob);
  t.equal(refused.status, 404);
  t.strictSame(await refused.json(), {
    error: {
      type: 'resource_not_found_error',
      message: 'Not found the model or Permission denied',
      code: 'svc-v1',
      param: 'model',
    },
  });
  t.equal((await ask(service, [prefix], asBob)).error, 'Not found the model or Permission denied');
  const list = (await (await service.call('GET', '/caching', undefined, asBob)).json()) as object;
  t.strictSame(list, { object: 'list', data: [] }, 'the lists are open all the same');
});

t.test('an owner with one model has hits on it', async (t) => {
  const cache = await readyCache(service, { messages: [prefix] });
  const chat = [prefix, said('Hi')];
  const asked = await askWith(service, cache.id, chat, { model: 'svc-v1-32k' });
  t.strictSame(asked.cache, hitHeaders(cache));
  t.equal((await askWith(service, cache.id, chat)).status, 404, 'and none on the others');
});
