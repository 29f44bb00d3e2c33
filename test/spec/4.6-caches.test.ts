/**
 * Owns the proof that the cache operations answer as the contract says, over a real socket.
 * It must see caches only as a client does.
 */
import t, { type Test } from 'tap';
import { cacheListSchema, cacheSchema } from '../../src/protocol/caching.js';
import { compile } from '../../src/protocol/schema.js';
import { bobKey, openService, type TestService } from '../support/service.js';
import { until } from '../support/until.js';

t.setTimeout(120_000);

interface Answer {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: what came is what is looked at
  readonly body: any;
}

const message = { role: 'user', content: 'Hello' };
const plain = { model: 'svc-v1', messages: [message] };
const asBob = { authorization: `Bearer ${bobKey}` };
const nowS = () => Math.floor(Date.now() / 1000);
const isCache = compile(cacheSchema);
const isList = compile(cacheListSchema);

class Client {
  constructor(readonly service: TestService) {}

  async call(method: string, path: string, body?: unknown, headers = {}): Promise<Answer> {
    const response = await this.service.call(method, path, body, headers);
    return { status: response.status, body: await response.json() };
  }

  async create(fields: object = {}, headers = {}): Promise<string> {
    const { status, body } = await this.call('POST', '/caching', { ...plain, ...fields }, headers);
    if (status !== 200) throw new Error(JSON.stringify(body));
    return body.id as string;
  }

  /** Until it is no longer pending. */
  async settled(id: string): Promise<Answer['body']> {
    const look = async (): Promise<Answer['body'] | null> => {
      const { body } = await this.call('GET', `/caching/${id}`);
      return body.status === 'pending' ? null : body;
    };
    return await until(look, 20_000, `${id} is no longer pending`);
  }
}

async function open(t: Test): Promise<Client> {
  return new Client(await openService(t));
}

const call = (name: string) => ({
  role: 'assistant',
  content: null,
  tool_calls: [{ id: 'c1', type: 'function', function: { name, arguments: '{}' } }],
});
const tool = { type: 'function', function: { name: 'f', parameters: { type: 'object' } } };
const result = { role: 'tool', tool_call_id: 'c1', content: 'found' };

t.test('create, get, update and delete', async (t) => {
  const client = await open(t);
  const before = nowS();
  const created = await client.call('POST', '/caching', {
    ...plain,
    name: 'n',
    description: 'd',
    metadata: { a: 'b' },
    ttl: 60,
  });
  t.equal(created.status, 200);
  t.ok(isCache(created.body), 'it has the shape that is described');
  const { id, created_at, expired_at, tokens, ...rest } = created.body;
  t.match(id, /^cache-[a-z0-9]{20}$/);
  t.ok(created_at >= before && created_at <= nowS());
  t.equal(expired_at, created_at + 60);
  t.ok(tokens > 0, 'tokens are there at once');
  t.strictSame(rest, {
    status: 'pending',
    object: 'context-cache',
    model: 'svc-v1',
    name: 'n',
    description: 'd',
    metadata: { a: 'b' },
    messages: [message],
    tools: [],
  });
  const ready = await client.settled(id);
  t.match(ready, { status: 'ready', tokens });
  t.notOk('error' in ready);

  const put = await client.call('PUT', `/caching/${id}`, { metadata: { c: 'd' }, ttl: 600 });
  t.match(put, { status: 200, body: { id, status: 'pending', tokens, messages: [message] } });
  t.strictSame(put.body.metadata, { c: 'd' }, 'metadata is replaced');
  t.ok(put.body.expired_at >= before + 600);
  t.equal((await client.settled(id)).status, 'ready');

  const deleted = { deleted: true, id, object: 'context_cache_object.deleted' };
  t.strictSame(await client.call('DELETE', `/caching/${id}`), { status: 200, body: deleted });
  for (const [method, body] of [['GET'], ['DELETE'], ['PUT', {}]] as const) {
    t.strictSame(await client.call(method, `/caching/${id}`, body), {
      status: 404,
      body: { error: { type: 'resource_not_found_error', message: `Not found the cache ${id}` } },
    });
  }
});

t.test('what comes back is what was sent, in canonical form', async (t) => {
  const client = await open(t);
  const messages = [
    '{"content":"\\u00e9 e\\u0301 \\u0000","role":"user","name":null}',
    '{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":""}]}',
    '{"role":"user","content":"x","__proto__":{"y":-0},"extra":[null,1e2]}',
  ];
  const schema = '{"properties":{"a":{"const":null},"b":{"default":null}},"type":"object"}';
  const tool = `{"type":"function","function":{"parameters":${schema},"name":"f","strict":null}}`;
  const body = `{"tools":[${tool}],"model":"svc-v1","messages":[${messages}]}`;
  const response = await client.service.call('POST', '/caching', body);
  const text = await response.text();
  t.equal(response.status, 200, text);
  const id = (JSON.parse(text) as { id: string }).id;
  for (const part of [
    '{"content":"é e\u0301 \\u0000","role":"user"}',
    '{"content":[{"text":"a","type":"text"},{"text":"","type":"text"}],"role":"user"}',
    '{"__proto__":{"y":-0},"content":"x","extra":[null,100],"role":"user"}',
    `{"function":{"name":"f","parameters":${schema}},"type":"function"}`,
  ]) {
    t.ok(text.includes(part), part);
  }
  const again = await (await client.service.call('GET', `/caching/${id}`)).text();
  t.equal(again.slice(again.indexOf('"messages"')), text.slice(text.indexOf('"messages"')));
});

t.test('creation is lenient where clients are known to be odd', async (t) => {
  const client = await open(t);
  for (const fields of [
    { tools: null },
    { expiredAt: 'yesterday', unknown: [] },
    { name: null, description: null, metadata: null, tags: null, ttl: null, expired_at: null },
    { expired_at: 0 },
    { expired_at: 0, ttl: 5 },
    { messages: [], tools: [tool] },
    { name: '😀'.repeat(256), description: '😀'.repeat(512) },
    { metadata: { ['ü'.repeat(64)]: '😀'.repeat(512), '': '' } },
    { expired_at: nowS() + 3590 },
  ]) {
    const { status, body } = await client.call('POST', '/caching', { ...plain, ...fields });
    t.equal(status, 200, JSON.stringify(body).slice(0, 200));
  }
  const { body } = await client.call('POST', '/caching', plain);
  t.equal(body.expired_at, body.created_at + 3600, 'an hour where no time is given');
});

const entries = (count: number) =>
  Object.fromEntries(Array.from({ length: count }, (_, i) => [`k${i}`, 'v']));

const refused: readonly [fields: object, text: RegExp, param?: string][] = [
  [{ model: 'svc-v2' }, /model must be one of the families 'svc-v1', got 'svc-v2'/, 'model'],
  [{ model: 'svc-v1-8k' }, /model must be one of the families/, 'model'],
  [{ model: null }, /model must be a string/, 'model'],
  [{ messages: undefined }, /messages is required/, 'messages'],
  [{ messages: [] }, /messages must not be empty/, 'messages'],
  [{ messages: [{ role: 'user', content: '' }] }, /position 0 .* must not be empty/],
  [{ messages: [{ role: 'owner', content: 'x' }] }, /messages\[0\].role must be one of/],
  [{ messages: [{ role: 'assistant', content: 'x', partial: true }] }, /partial is not supported/],
  [{ tools: [{}] }, /tools\[0\].type is required/],
  [{ tools: {} }, /tools must be an array/, 'tools'],
  [{ ttl: 0 }, /ttl must be an integer in \[1, 3600\], got 0/, 'ttl'],
  [{ ttl: 3601 }, /ttl must be an integer in \[1, 3600\], got 3601/, 'ttl'],
  [{ ttl: 1.5 }, /ttl must be an integer/, 'ttl'],
  [{ ttl: '60' }, /ttl must be an integer/, 'ttl'],
  [{ ttl: 60, expired_at: 4e9 }, /expired_at and ttl must not both be given/, 'ttl'],
  [{ expired_at: 4e9 }, /expired_at must be at most 3600 seconds ahead/, 'expired_at'],
  [{ expired_at: 1.5 }, /expired_at must be an integer/, 'expired_at'],
  [
    { name: 'x'.repeat(257) },
    /name must have at most 256 characters, got 'x{40}…' \(257 characters\)/,
    'name',
  ],
  [{ name: 7 }, /name must be a string, got 7/, 'name'],
  [
    { description: 'x'.repeat(513) },
    /description must have at most 512 characters, got .* \(513 characters\)/,
    'description',
  ],
  [{ metadata: entries(17) }, /metadata must have at most 16 entries, got 17/, 'metadata'],
  [
    { metadata: { ['k'.repeat(65)]: 'v' } },
    /metadata must have at most 64 characters in each key, got 'k+…' \(65 characters\)/,
    'metadata',
  ],
  [
    { metadata: { k: 'v'.repeat(513) } },
    /metadata.k must have at most 512 characters, got .* \(513 characters\)/,
    'metadata.k',
  ],
  [{ metadata: { k: 1 } }, /metadata.k must be a string, got 1/, 'metadata.k'],
  [{ metadata: { k: null } }, /metadata.k must be a string/, 'metadata.k'],
  [{ metadata: [] }, /metadata must be an object/, 'metadata'],
  [
    { tags: ['ok', '1st'] },
    /tags\[1\] must have 1 to 128 characters: an ASCII letter, then letters, .*, got '1st'/,
    'tags[1]',
  ],
  [{ tags: ['a/b'] }, /tags\[0\] must/, 'tags[0]'],
  [{ tags: 'a' }, /tags must be an array/, 'tags'],
];

t.test('what is no valid request is a 400 that names the field', async (t) => {
  const client = await open(t);
  for (const [fields, text, param] of refused) {
    const { status, body } = await client.call('POST', '/caching', { ...plain, ...fields });
    t.equal(status, 400, `${text}`);
    t.equal(body.error?.type, 'invalid_request_error');
    t.match(body.error?.message, text);
    if (param) t.equal(body.error?.param, param);
  }
  t.strictSame((await client.call('GET', '/caching')).body.data, [], 'nothing was kept');
  const id = await client.create();
  for (const fields of [{ ttl: 0 }, { ttl: 1, expired_at: 4e9 }, { metadata: entries(17) }, []]) {
    t.equal((await client.call('PUT', `/caching/${id}`, fields)).status, 400);
  }
  t.equal((await client.call('PUT', '/caching/cache-0', { ttl: 0 })).status, 400);
});

t.test('an update changes what it names, and nothing else', async (t) => {
  const client = await open(t);
  const { body: made } = await client.call('POST', '/caching', { ...plain, name: 'n', ttl: 600 });
  await client.settled(made.id);
  const path = `/caching/${made.id}`;
  const put = await client.call('PUT', path, { metadata: { a: 'b' } });
  t.match(put, { status: 200, body: { status: 'pending', expired_at: made.expired_at } });
  t.match(await client.settled(made.id), { status: 'ready', expired_at: made.expired_at });
  const zero = await client.call('PUT', path, { metadata: {}, expired_at: 0, ttl: null });
  t.equal(zero.body.expired_at, made.expired_at, 'zero is how some clients write none');
  const later = await client.call('PUT', path, { ttl: 900 });
  t.ok(later.body.expired_at > made.expired_at);
  t.strictSame(later.body.metadata, {});
  await client.settled(made.id);
  const fixed = { name: 'x', messages: [], model: 'svc-v1', tools: [], description: 'x', tags: [] };
  for (const [name, value] of Object.entries({ ...fixed, id: 'x', status: 'ready', tokens: 0 })) {
    const { status, body } = await client.call('PUT', path, {
      metadata: { z: 'z' },
      [name]: value,
    });
    t.equal(status, 400, name);
    const message = `Invalid request: ${name} of a cache cannot be changed, only metadata, pin, expired_at, ttl can`;
    t.ok(body.error.message.startsWith(message), body.error.message);
    t.equal(body.error.param, name);
  }
  t.equal((await client.call('PUT', path, { name: null, other: 1 })).status, 200);
  t.match((await client.call('GET', path)).body, { name: 'n', metadata: {} });
});

t.test('what makes a creation fail is told by the status', async (t) => {
  const client = await open(t);
  const failing: readonly [fields: object, text: RegExp][] = [
    [{ expired_at: nowS() - 5 }, /expired_at must be greater than/],
    [{ expired_at: 1 }, /expired_at must be greater than/],
    [{ messages: [result] }, /role 'tool' must follow an assistant message/],
    [{ messages: [message, call('f'), { ...result, tool_call_id: 'c2' }], tools: [tool] }, /'c2'/],
    [{ messages: [message, call('g'), result], tools: [tool] }, /one of the tools, got 'g'/],
    [{ messages: [message, call('f'), result] }, /one of the tools, got 'f'/],
    [
      { messages: [{ role: 'user', content: 'x'.repeat(129 * 1024) }] },
      /messages and tools must have at most 131072 tokens, got 1321\d\d$/,
    ],
  ];
  for (const [fields, text] of failing) {
    const { status, body } = await client.call('POST', '/caching', { ...plain, ...fields });
    t.match({ status, body }, { status: 200, body: { status: 'pending' } }, `${text}`);
    const failed = await client.settled(body.id);
    t.match(failed, { status: 'error', error: { type: 'invalid_request_error', message: text } });
    t.equal(failed.tokens, body.tokens);
  }
  const good = { messages: [message, call('f'), result], tools: [tool] };
  t.equal((await client.settled(await client.create(good))).status, 'ready');

  const { body } = await client.call('POST', '/caching', { ...plain, expired_at: 1 });
  await client.settled(body.id);
  const put = await client.call('PUT', `/caching/${body.id}`, { ttl: 60 });
  t.match(put, { status: 200, body: { status: 'pending' } });
  t.equal((await client.settled(body.id)).status, 'ready', 'PUT gives it another try');
  const broken = await client.create({ messages: [result] });
  await client.settled(broken);
  await client.call('PUT', `/caching/${broken}`, {});
  t.equal((await client.settled(broken)).status, 'error', 'which messages do not change');
});

t.test('a list is ordered, cut, and filtered', async (t) => {
  const client = await open(t);
  const ids: string[] = [];
  for (let i = 0; i < 7; i++)
    ids.push(await client.create({ metadata: { k: `${i % 2}`, m: 'x' } }));
  await client.create({}, asBob);
  const list = async (query: string): Promise<string[]> => {
    const { status, body } = await client.call('GET', `/caching${query}`);
    t.equal(status, 200, query);
    t.ok(isList(body), query);
    t.strictSame(Object.keys(body), ['object', 'data']);
    return body.data.map(({ id }: { id: string }) => id);
  };
  const desc = await list('');
  t.strictSame([...desc].sort(), [...ids].sort(), 'the owner’s own');
  const asc = await list('?order=asc');
  t.strictSame(asc, [...desc].reverse());
  t.strictSame(await list('?limit=3'), desc.slice(0, 3));
  t.strictSame(await list(`?limit=2&after=${desc[2]}`), desc.slice(3, 5));
  t.strictSame(await list(`?before=${desc[2]}`), desc.slice(0, 2));
  t.strictSame(await list(`?order=asc&after=${asc[1]}&before=${asc[5]}`), asc.slice(2, 5));
  t.strictSame(await list(`?after=${desc.at(-1)}`), []);
  t.equal((await list('?metadata[k]=1')).length, 3);
  t.equal((await list('?metadata%5Bk%5D=0&metadata[m]=x')).length, 4);
  t.strictSame(await list('?metadata[k]=2'), []);
  t.strictSame(await list('?metadata[__proto__]=2'), []);
  t.equal((await list('?unknown=1&limit=100')).length, 7);
});

t.test('a list refuses what it cannot mean', async (t) => {
  const client = await open(t);
  const theirs = await client.create({}, asBob);
  const limits = ['0', '-1', '1e9', 'x', '101', '', '1.5', '%00'].map(
    (text) => [`limit=${text}`, 'limit', 'limit must be an integer in [1, 100], got '] as const,
  );
  const unknown = 'cache-00000000000000000000';
  const others = [
    ['order=up', 'order', "order must be one of 'asc', 'desc', got 'up'"],
    [`after=${unknown}`, 'after', `after must name an item of the list, got '${unknown}'`],
    ['before=x', 'before', "before must name an item of the list, got 'x'"],
    ['after=', 'after', 'after must not be empty'],
    ['limit=1&limit=2', 'limit', "'limit' must be given once"],
    ['order=asc&order=asc', 'order', "'order' must be given once"],
  ] as const;
  for (const [query, param, words] of [...limits, ...others]) {
    const { status, body } = await client.call('GET', `/caching?${query}`);
    t.equal(status, 400, query);
    t.match(body.error, { type: 'invalid_request_error', param }, query);
    t.ok(body.error?.message.startsWith(`Invalid request: ${words}`), body.error?.message);
  }
  const { body: huge } = await client.call('GET', '/caching?limit=1e9');
  t.match(huge.error?.message, /got '1e9'$/, 'what came is told');
  t.equal((await client.call('GET', `/caching?after=${theirs}`)).status, 403);
});

t.test('a cache is its owner’s alone', async (t) => {
  const client = await open(t);
  const id = await client.create();
  for (const [method, body] of [['GET'], ['PUT', {}], ['DELETE']] as const) {
    t.strictSame(await client.call(method, `/caching/${id}`, body, asBob), {
      status: 403,
      body: {
        error: {
          type: 'permission_denied_error',
          message: 'You are not allowed to get other user info',
        },
      },
    });
  }
  t.equal((await client.call('GET', `/caching/${id}`)).status, 200);
  const keyless = await client.call('GET', `/caching/${id}`, undefined, { authorization: '' });
  t.equal(keyless.status, 401);
  t.equal((await client.call('PATCH', `/caching/${id}`)).status, 405);
});
