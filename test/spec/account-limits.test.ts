/**
 * §8: what one account may keep, by its own numbers, as the operator changes them; what it sees of itself.
 */
import t from 'tap';
import { post, refusal, said } from '../support/chat-client.js';
import { form, purpose, send } from '../support/file-client.js';
import { aliceKey, bobKey, openService, type TestService } from '../support/service.js';
import { until } from '../support/until.js';

t.setTimeout(120_000);

const adminKey = 'the-key-of-the-operator';
const service = await openService(t, { PREFACE_ADMIN_KEY: adminKey });
const bob = { authorization: `Bearer ${bobKey}` };

type Fields = Record<string, unknown>;

async function grant(body: Fields, user = 'alice'): Promise<void> {
  const response = await fetch(`${service.url.slice(0, -3)}/admin/v1/users/${user}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${adminKey}` },
    body: JSON.stringify(body),
  });
  if (response.status !== 200) throw new Error(await response.text());
}

const upload = (text: string, headers = {}) =>
  send(service, form([purpose, ['file', text, 'a.txt']]), headers);

async function json(response: Promise<Response>): Promise<Fields> {
  return (await (await response).json()) as Fields;
}

t.test('files: their number and their size, each account by its own', async (t) => {
  await grant({ files: 1 });
  const { id } = await json(upload('one'));
  const many = await refusal(t, await upload('two'));
  t.match(many, { status: 400, type: 'invalid_request_error' });
  t.equal(
    many.message,
    'The number of files you have uploaded exceeded the max file count 1, please delete previous uploaded files',
  );
  t.equal((await upload('two', bob)).status, 200, 'others go on');
  t.equal((await service.call('GET', `/files/${id}/content`)).status, 200);
  // The upload has 3 bytes, and its text as JSON 5.
  await grant({ files: 'default', file_bytes: 15 });
  const large = await refusal(t, await upload('eight by'));
  t.equal(
    large.message,
    'The total size of the files you have uploaded exceeded the max total size 10G, please delete previous uploaded files',
  );
  t.equal((await upload('seven b')).status, 200);
  await grant({ file_bytes: 'default' });
  t.equal((await upload('eight by')).status, 200);
  t.equal((await service.call('DELETE', `/files/${id}`)).status, 200);
});

async function cache(text: string, more: Fields = {}, headers = {}): Promise<Response> {
  const messages = [{ role: 'system', content: text }];
  return await service.call('POST', '/caching', { model: 'svc-v1', messages, ...more }, headers);
}

const shown = (id: unknown) => json(service.call('GET', `/caching/${id}`));

async function status(id: unknown, wanted: string): Promise<void> {
  await until(async () => (await shown(id)).status === wanted, 20_000, `${id} is ${wanted}`);
}

t.test('cached tokens: of live caches together, and what brings one back', async (t) => {
  const first = await json(cache('x'.repeat(50)));
  const tokens = first.tokens as number;
  await grant({ cached_tokens: 2 * tokens });
  const second = await json(cache('y'.repeat(50)));
  const found = await refusal(t, await cache('z'));
  t.match(found, { status: 400, type: 'invalid_request_error' });
  t.equal(
    found.message,
    `Invalid request: all your live caches together must have at most ${2 * tokens} tokens: delete some, or let them expire`,
  );
  t.equal((await cache('z', {}, bob)).status, 200, 'others go on');
  t.equal((await shown(first.id)).tokens, tokens);
  const list = await json(service.call('GET', '/caching'));
  t.equal((list.data as unknown[]).length, 2, 'nothing is left of what was refused');

  await service.call('PUT', `/caching/${second.id}`, { ttl: 1 });
  await status(second.id, 'inactive');
  const third = await json(cache('w'.repeat(50)));
  t.equal(third.object, 'context-cache', 'what has expired takes nothing');
  const again = await service.call('PUT', `/caching/${second.id}`, { ttl: 60 });
  t.equal((await refusal(t, again)).status, 400);
  const messages = [{ role: 'system', content: 'y'.repeat(50) }];
  const chat = { model: 'svc-v1-8k', messages: [...messages, { role: 'user', content: 'x' }] };
  const answered = await service.call('POST', '/chat/completions', chat, {
    'x-svc-context-cache': String(second.id),
    'x-svc-context-cache-reset-ttl': '60',
  });
  t.equal(answered.status, 200, 'a chat is never refused for it');
  t.equal((await shown(second.id)).status, 'inactive', 'but it stays expired');

  t.equal((await service.call('DELETE', `/caching/${first.id}`)).status, 200);
  t.equal((await service.call('PUT', `/caching/${second.id}`, { ttl: 60 })).status, 200);
  t.equal((await cache('z')).status, 400, 'all of it is taken again');
  const failed = await json(cache('q'.repeat(50), { expired_at: 1 }));
  t.equal(failed.object, 'context-cache', 'one that fails takes nothing');
  await grant({ cached_tokens: 'default' });
  t.equal((await cache('z')).status, 200);
});

t.test('many at once do not go beyond it', async (t) => {
  const free = await json(cache('a'.repeat(50), {}, bob));
  await grant({ cached_tokens: 10 * (free.tokens as number) }, 'bob');
  const all = await Promise.all(
    Array.from({ length: 40 }, (_, i) => cache(String(100 + i).padEnd(50, 'x'), {}, bob)),
  );
  const made = all.filter((response) => response.status === 200).length;
  // One of before has fewer tokens than the others.
  t.ok(made >= 8 && made <= 9, `${made} of 40`);
});

t.test('a model that is not open has no caches either', async (t) => {
  await grant({ models: ['svc-k2.5'] });
  const found = await refusal(t, await cache('x'));
  t.match(found, { status: 404, message: 'Not found the model or Permission denied' });
  await grant({ models: ['svc-v1-128k'] });
  t.equal((await cache('x')).status, 200, 'one of the family is enough');
  await grant({ models: 'default', apis: ['chat'] });
  t.match(await refusal(t, await cache('x')), {
    status: 403,
    message: 'The API you are accessing is not open',
  });
  await grant({ apis: 'default' });
});

t.test('the own balance and usage, and nobody else’s', async (t) => {
  const balance = (who = 'me') => service.call('GET', `/users/${who}/balance`);
  const none = { available_balance: null, voucher_balance: 0, cash_balance: null };
  t.match(await json(balance()), { code: 0, data: none, scode: '0x0', status: true });
  await grant({ balance: 1_000 });
  const { usage } = await json(post(service, said('x', { max_tokens: 5 })));
  const used = (usage as { total_tokens: number }).total_tokens;
  t.match(await json(balance('alice')), {
    data: { available_balance: 1_000 - used, spent_tokens: used, granted_tokens: 1_000 },
  });
  for (const other of ['bob', 'nobody', 'constructor']) {
    for (const what of ['balance', 'usage']) {
      const found = await refusal(t, await service.call('GET', `/users/${other}/${what}`));
      t.match(found, {
        status: 403,
        type: 'permission_denied_error',
        message: 'You are not allowed to get other user info',
      });
    }
  }
  const days = await json(service.call('GET', '/users/me/usage?days=1'));
  t.match(days, { object: 'list', data: [{ date: new Date().toISOString().slice(0, 10) }] });
  await grant({ balance: 'none' });
});

t.test('what was used is there after a restart', async (t) => {
  const first = await openService(t, { PREFACE_ADMIN_KEY: adminKey });
  await (await post(first, said('x'))).text();
  const before = await usageOf(first);
  await first.close();
  const second = await openService(t, { PREFACE_DATA_DIR: first.dataDir });
  const after = await usageOf(second);
  const used = (list: Fields) => (list.data as Fields[])[0]?.prompt_tokens;
  t.equal(used(after), used(before));
  t.ok(Number(used(after)) > 0);
});

async function usageOf(of: TestService): Promise<Fields> {
  return (await (
    await fetch(`${of.url}/users/me/usage`, { headers: { authorization: `Bearer ${aliceKey}` } })
  ).json()) as Fields;
}

t.test('tags: their number, also for many at once, and what makes room', async (t) => {
  const held = await json(cache('tagged', { tags: ['a', 'b'] }));
  await grant({ tags: 4 });
  const bind = (tag: string) =>
    service.call('POST', '/caching/refs/tags', { tag, cache_id: held.id });
  const names = ['c', 'd', 'e', 'f', 'g', 'h', 'i', 'j'];
  const all = await Promise.all(names.map(bind));
  t.equal(all.filter(({ status }) => status === 200).length, 2);
  for (const response of all.filter(({ status }) => status !== 200)) {
    t.match(await refusal(t, response), {
      status: 400,
      type: 'invalid_request_error',
      param: 'tag',
      message: 'Invalid request: you may have at most 4 tags: delete some',
    });
  }
  t.equal((await bind('a')).status, 200, 'one that is there may move');
  t.equal((await cache('more', { tags: ['a', 'x'] })).status, 400);
  t.equal((await cache('more', { tags: ['a', 'b'] })).status, 200);
  for (let i = 0; i < 3; i += 1) await service.call('DELETE', '/caching/refs/tags/a');
  const again = await Promise.all(['k', 'l'].map(bind));
  t.strictSame(again.map(({ status }) => status).sort(), [200, 400], 'a deletion counts once');
  const { data } = await json(service.call('GET', '/caching/refs/tags'));
  t.equal((data as unknown[]).length, 4);
  await grant({ tags: 'default' });
  t.equal((await bind('z')).status, 200);
});
