/**
 * Owns the proof that a cache can go on from another: what is evaluated, what stays when the base goes, and where two part.
 * It must see caches only as a client does.
 */
import t from 'tap';
import {
  asBob,
  askWith,
  createCache,
  getCache,
  hitHeaders,
  readyCache,
  said,
} from '../support/cache-client.js';
import { openService } from '../support/service.js';

t.setTimeout(120_000);

const service = await openService(t);
const handbook = { role: 'system', content: 'The harbour opens at six. Room 7 has the red key.' };
const tool = { type: 'function', function: { name: 'f', parameters: { type: 'object' } } };
const picture = {
  role: 'user',
  content: [
    {
      type: 'image_url',
      image_url: {
        url: 'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
      },
    },
  ],
};
const called = {
  role: 'assistant',
  content: null,
  tool_calls: [{ id: 'c1', type: 'function', function: { name: 'f', arguments: '{}' } }],
};

const call = async (method: string, path: string, body?: unknown, headers = {}) => {
  const response = await service.call(method, path, body, headers);
  return { status: response.status, body: (await response.json()) as Record<string, unknown> };
};

const derived = (base: string, fields: object = {}) =>
  call('POST', '/caching', { base, messages: [said('Be brief.')], ...fields });

t.test('a derived cache evaluates what is new alone, and is a cache like any other', async (t) => {
  const base = await readyCache(service, { messages: [handbook], tools: [tool], tags: ['book'] });
  t.equal(base.snapshot?.evaluated_tokens, base.tokens, 'the base was evaluated whole');
  t.notOk('base' in base);
  for (const name of [base.id, 'book']) {
    const more = said(`Be brief about ${name}.`);
    const child = await readyCache(service, {
      model: null,
      base: name,
      messages: [more],
      ttl: 60,
      tags: [name === 'book' ? 'brief' : 'short'],
    });
    t.match(child, { base: base.id, model: 'svc-v1', messages: [handbook, more], tools: [tool] });
    t.equal(child.expired_at, child.created_at + 60);
    t.equal(child.snapshot?.evaluated_tokens, child.tokens - base.tokens);
    const asked = await askWith(service, child.id, [handbook, more, said('Which key?')], {
      tools: [tool],
    });
    t.strictSame(asked.cache, hitHeaders(child));
  }
});

t.test('a derived cache of a derived one; the answer is that of a whole cache', async (t) => {
  const base = await readyCache(service, { messages: [handbook] });
  const child = await readyCache(service, { base: base.id, messages: [said('One.')] });
  const grandchild = await readyCache(service, { base: child.id, messages: [said('Two.')] });
  t.match(grandchild, { base: child.id, messages: [handbook, said('One.'), said('Two.')] });
  t.equal(grandchild.snapshot?.evaluated_tokens, grandchild.tokens - child.tokens);
  const whole = await readyCache(service, { messages: grandchild.messages });
  t.equal(whole.tokens, grandchild.tokens);
  t.equal(whole.snapshot?.evaluated_tokens, 0, 'the same prefix has the same snapshot');
});

t.test('the base may go: what was derived from it goes on', async (t) => {
  const base = await readyCache(service, { messages: [said('a base that goes')] });
  const child = await readyCache(service, { base: base.id, messages: [said('and its child')] });
  t.equal((await call('DELETE', `/caching/${base.id}`)).status, 200);
  const left = await getCache(service, child.id);
  t.match(left, { status: 'ready', base: base.id });
  const messages = [...left.messages, said('Still there?')];
  t.strictSame((await askWith(service, child.id, messages)).cache, hitHeaders(child));
  t.equal((await call('PUT', `/caching/${child.id}`, { ttl: 90 })).status, 200);
});

t.test('refusals name the field', async (t) => {
  const { id } = await readyCache(service, { messages: [handbook] });
  const theirs = await readyCache(service, { messages: [handbook] }, asBob);
  const broken = await createCache(service, {
    messages: [{ role: 'tool', tool_call_id: 'c1', content: 'found' }],
  });
  for (const [base, fields, status, param, message] of [
    ['nothing', {}, 404, 'base', 'Not found the'],
    [`cache-${'x'.repeat(20)}`, {}, 404, 'base', 'Not found the cache cache-xxx'],
    [theirs.id, {}, 403, 'base', ''],
    [id, { messages: [] }, 400, 'messages', 'messages must not be empty beside base'],
    [id, { tools: [tool] }, 400, 'tools', 'tools must be null beside base'],
    [id, { model: 'other' }, 400, 'model', "model must be 'svc-v1', the family of the base"],
    [id, { messages: [{ role: 'user' }] }, 400, 'messages[0].content', 'content is required'],
    [id, { messages: [said('a'), { role: 'x', content: 'b' }] }, 400, 'messages[1].role', ''],
    [id, { messages: [picture] }, 400, 'messages[0].content[0].image_url.url', 'is an image, and'],
    [
      id,
      { messages: [said('a'), picture] },
      400,
      'messages[1].content[0].image_url.url',
      'is an image, and',
    ],
    [7, {}, 400, 'base', 'base must be a string'],
    [id, { ttl: 0 }, 400, 'ttl', 'ttl must'],
  ] as const) {
    const refused = await derived(base as string, fields);
    t.equal(refused.status, status, JSON.stringify(refused.body));
    t.match(refused.body.error, { param, message: new RegExp(message.replace(/[[\]]/g, '.')) });
  }
  const put = await call('PUT', `/caching/${id}`, { base: id });
  t.match(put.body.error, { param: 'base', message: /base of a cache cannot be changed/ });
  while ((await getCache(service, broken.id)).status === 'pending');
  t.match(await derived(broken.id), { status: 400, body: { error: { param: 'base' } } });
});

t.test('the calls and results of base and request are checked together', async (t) => {
  const base = await readyCache(service, { messages: [said('Look.'), called], tools: [tool] });
  const result = { role: 'tool', tool_call_id: 'c1', content: 'found' };
  const child = await readyCache(service, { base: base.id, messages: [result] });
  t.match(child, { status: 'ready', messages: [said('Look.'), called, result] });
});

t.test('bodies and bases of any size', async (t) => {
  const long = said('long '.repeat(20_000));
  const base = await readyCache(service, { messages: [long] });
  const child = await readyCache(service, { base: base.id, messages: [said('short')] });
  t.strictSame(child.messages, [long, said('short')]);
  t.equal(child.snapshot?.evaluated_tokens, child.tokens - base.tokens);
  const small = await readyCache(service, { messages: [said('small')] });
  const other = { ...long, role: 'assistant' };
  const large = await readyCache(service, { base: small.id, messages: [other] });
  t.strictSame(large.messages, [said('small'), other]);
  t.match(await derived('nobody', { messages: [long] }), { status: 404 });
  const diff = await call('GET', `/caching/${base.id}/diff/${large.id}`);
  t.match(diff.body, { shared_messages: 0, message: 0, character: 0 });
});

t.test('where two caches part', async (t) => {
  const [hello, bye] = [said('😀 Hello there'), said('😀 Hello you')];
  const one = await readyCache(service, { messages: [handbook, hello], tools: [tool] });
  const other = await readyCache(service, { messages: [handbook, bye], tools: [tool] });
  const diff = await call('GET', `/caching/${one.id}/diff/${other.id}`);
  const { shared_tokens, ...rest } = diff.body;
  t.strictSame(rest, {
    object: 'context-cache.diff',
    a: { id: one.id, messages: 2, tokens: one.tokens },
    b: { id: other.id, messages: 2, tokens: other.tokens },
    shared_messages: 1,
    difference: 'messages[1].content differs at character 8',
    message: 1,
    character: 8,
  });
  t.ok(Number(shared_tokens) > handbook.content.length && Number(shared_tokens) < other.tokens);

  const child = await readyCache(service, { base: one.id, messages: [said('more')] });
  const grown = await call('GET', `/caching/${one.id}/diff/${child.id}`);
  const nothing = { difference: null, character: null };
  t.match(grown.body, { shared_messages: 2, message: 2, shared_tokens: one.tokens, ...nothing });
  const same = await call('GET', `/caching/${one.id}/diff/${one.id}`);
  t.match(same.body, { shared_messages: 2, message: null, shared_tokens: one.tokens, ...nothing });
  const bare = await readyCache(service, { messages: [handbook, hello] });
  const without = await call('GET', `/caching/${one.id}/diff/${bare.id}`);
  const toolsDiffer = { difference: 'tools has 1 item, the cache has 0 items', message: null };
  t.match(without.body, { shared_messages: 0, ...toolsDiffer });
});

t.test('nobody compares with another owner’s cache', async (t) => {
  const mine = await readyCache(service, { messages: [handbook] });
  const theirs = await readyCache(service, { messages: [handbook] }, asBob);
  for (const path of [`${mine.id}/diff/${theirs.id}`, `${theirs.id}/diff/${mine.id}`])
    t.match(await call('GET', `/caching/${path}`), { status: 403 });
  t.match(await call('GET', `/caching/${mine.id}/diff/nothing`), { status: 404 });
});
