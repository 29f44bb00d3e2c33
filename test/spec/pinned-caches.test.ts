/**
 * Owns the proof of what a client sees of a pinned cache: the wish, whether there is room, and its end.
 * It must see caches only as a client does.
 */
import t from 'tap';
import { askWith, hitHeaders, readyCache, said, untilCache } from '../support/cache-client.js';
import { refusal } from '../support/chat-client.js';
import { openService } from '../support/service.js';

t.setTimeout(120_000);

const service = await openService(t);
const handbook = { role: 'system', content: 'The harbour opens at six. Room 7 has the red key.' };

const put = async (id: string, fields: object) => {
  const response = await service.call('PUT', `/caching/${id}`, fields);
  return { status: response.status, body: (await response.json()) as Record<string, unknown> };
};

t.test('a cache is pinned from its creation, and is a cache like any other', async (t) => {
  const cache = await readyCache(service, { messages: [handbook], pin: true });
  t.match(cache, { pin: true, snapshot: { pinned: true } });
  const asked = await askWith(service, cache.id, [handbook, said('When?')]);
  t.strictSame(asked.cache, hitHeaders(cache));
  const child = await readyCache(service, { base: cache.id, messages: [said('Be brief.')] });
  t.notOk('pin' in child, 'a cache that goes on from it has a wish of its own');
  t.notOk('pinned' in (child.snapshot ?? {}));
  const own = { base: cache.id, messages: [said('Be long.')], model: null, pin: true };
  t.match(await readyCache(service, own), { pin: true, snapshot: { pinned: true } });
});

t.test('PUT pins it and takes the pin away; without the field it stays', async (t) => {
  const { id } = await readyCache(service, { messages: [said('one')] });
  t.match(await put(id, { pin: true }), { status: 200, body: { status: 'pending', pin: true } });
  t.match(await untilCache(service, id, { status: 'ready' }), { snapshot: { pinned: true } });
  await put(id, { metadata: { a: 'b' } });
  t.match(await untilCache(service, id, { status: 'ready' }), { pin: true });
  await put(id, { pin: null });
  t.match(await untilCache(service, id, { status: 'ready' }), { pin: true });
  await put(id, { pin: false });
  const free = await untilCache(service, id, { status: 'ready' });
  t.notOk('pin' in free || 'pinned' in (free.snapshot ?? {}));
});

t.test('a pin is true or false', async (t) => {
  const body = { model: 'svc-v1', messages: [handbook], pin: 'yes' };
  const created = await refusal(t, await service.call('POST', '/caching', body));
  t.match(created, { status: 400, param: 'pin', message: /pin must be .*got 'yes'/ });
  const { id } = await readyCache(service, { messages: [said('two')] });
  const changed = await refusal(t, await service.call('PUT', `/caching/${id}`, { pin: 1 }));
  t.match(changed, { status: 400, param: 'pin' });
});
