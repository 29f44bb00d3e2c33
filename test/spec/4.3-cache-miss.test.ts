/**
 * §4.3, header mode: what is no hit never fails the chat, and says why in words that hold no text of a user.
 */
import t from 'tap';
import {
  asBob,
  ask,
  askWith,
  createCache,
  hitHeaders,
  openGated,
  readyCache,
  said,
  untilCache,
} from '../support/cache-client.js';
import { model, openWithSettings, refusal } from '../support/chat-client.js';
import { letGo } from '../support/engine-gated.js';

t.setTimeout(120_000);

const service = await openGated(t);
const unknownId = `cache-${'a'.repeat(20)}`;

const tool = (name: string, description = 'It does', places = ['Rome', 'Köln']) => ({
  type: 'function',
  function: {
    name,
    description,
    parameters: { type: 'object', properties: { place: { type: 'string', enum: places } } },
  },
});
const call = (id: string, text: string) => ({
  role: 'assistant',
  content: null,
  tool_calls: [{ id, type: 'function', function: { name: 'look', arguments: text } }],
});
const result = (id: string) => ({ role: 'tool', tool_call_id: id, content: 'sunny' });

const messages = [
  { role: 'system', content: 'S'.repeat(1300) },
  { role: 'user', content: 'Café 😀?', name: 'Ann' },
  call('call_1', '{"place": "Rome"}'),
  result('call_1'),
];
const tools = [tool('look'), tool('other')];
const cache = await readyCache(service, { messages, tools });

/** The chat with one of its messages replaced by another. */
const but = (at: number, message: unknown) =>
  messages.map((each, i) => (i === at ? message : each));

const secret = 'SECRET text of a user';
const but0 = (content: string, role = 'system') => but(0, { role, content });
const but1 = (fields: object) => but(1, { ...messages[1], ...fields });

type Miss = readonly [why: string, messages: readonly unknown[], tools?: unknown];

const messageMisses: readonly Miss[] = [
  ['messages[0].content differs at character 1208', but0(`${'S'.repeat(1208)}x${secret}`)],
  ['messages[0].content differs at character 1300', but0(`${'S'.repeat(1300)}${secret}`)],
  ['messages[0].content differs at character 1299', but0('S'.repeat(1299))],
  ['messages[0].role differs at character 0', but0('S'.repeat(1300), 'user')],
  ['messages[1].content differs at character 3', but1({ content: 'Cafe\u0301 😀?' })],
  ['messages[1].content differs at character 5', but1({ content: 'Café 😁?' })],
  ['messages[1].content differs', but1({ content: [{ type: 'text', text: 'Café 😀?' }] })],
  ['messages[1].name differs at character 0', but1({ name: 'Bob' })],
  ['messages[1].name is missing', but(1, { role: 'user', content: 'Café 😀?' })],
  ['messages[1].name is missing', but1({ name: null })],
  ['messages[1] differs', but1({ [secret]: 1 })],
  [
    'messages[2].tool_calls[0].id differs at character 5',
    [...messages.slice(0, 2), call('call_2', '{"place": "Rome"}'), result('call_2')],
  ],
  [
    'messages[2].tool_calls[0].function.arguments differs at character 9',
    but(2, call('call_1', '{"place":"Rome"}')),
  ],
  ['messages[3].content differs at character 0', but(3, { ...result('call_1'), content: secret })],
  ['messages[1].content differs at character 0', [messages[0], said(secret)]],
  ['messages[0].content differs at character 0', [messages[1], messages[0], ...messages.slice(2)]],
];
const toolMisses: readonly Miss[] = [
  ['tools has 0 items, the cache has 2 items', messages.slice(0, 2), null],
  ['tools has 1 item, the cache has 2 items', messages, tools.slice(0, 1)],
  ['tools has 3 items, the cache has 2 items', messages, [...tools, tool('more')]],
  ['tools[0].function.name differs at character 0', messages, [...tools].reverse()],
  [
    'tools[1].function.description differs at character 0',
    messages,
    [tool('look'), tool('other', secret)],
  ],
  [
    'tools[0].function.parameters differs',
    messages,
    [tool('look', 'It does', ['Köln', 'Rome']), tool('other')],
  ],
];

t.test('each difference is a miss with its place and without its text', async (t) => {
  for (const [why, changed, changedTools] of [...messageMisses, ...toolMisses]) {
    const more = changedTools === undefined ? { tools } : { tools: changedTools };
    const asked = await askWith(service, cache.id, [...changed, said('Hi')], more);
    t.equal(asked.status, 200, `${why}: ${asked.error}`);
    t.strictSame(asked.cache, { status: 'miss', 'miss-reason': why }, why);
    t.equal(asked.text, 'Hi');
    t.notOk('cached_tokens' in (asked.usage[0] ?? {}), 'and nothing was reused');
    t.notMatch(JSON.stringify(asked.cache), /SECRET|Caf|Ann|Rome/);
  }
  const short = await askWith(service, cache.id, messages.slice(0, 2), { tools });
  t.equal(short.cache['miss-reason'], 'messages has 2 items, the cache has 4 items');
});

t.test('what makes no difference is a hit', async (t) => {
  const reordered = messages.map((each) => Object.fromEntries(Object.entries(each).reverse()));
  const nulls = but(0, { ...messages[0], name: null, tool_calls: null, partial: null });
  const keys = tools.map(({ type, function: { parameters, ...rest } }) => ({
    function: { parameters, ...Object.fromEntries(Object.entries(rest).reverse()) },
    type,
  }));
  for (const [name, same, sameTools] of [
    ['keys in another order', reordered, tools],
    ['keys of tools in another order', messages, keys],
    ['null fields', nulls, tools],
  ] as const) {
    const asked = await askWith(service, cache.id, [...same, said('Hi')], { tools: sameTools });
    t.strictSame(asked.cache, hitHeaders(cache), `${name} ${asked.error}`);
  }
  const escaped = JSON.stringify({ model, tools, messages: [...messages, said('Hi')] }).replace(
    'é',
    '\\u00e9',
  );
  const headers = { 'x-svc-context-cache': cache.id };
  const response = await service.call('POST', '/chat/completions', escaped, headers);
  t.equal(
    response.headers.get('svc-context-cache-status'),
    'hit',
    'the value counts, not its form',
  );
});

t.test('an unknown, a deleted and an impossible id', async (t) => {
  const gone = await readyCache(service, { messages: [said('soon deleted')] });
  await service.call('DELETE', `/caching/${gone.id}`);
  const strange = [
    'cache-1',
    'x'.repeat(300),
    'refs',
    '../etc',
    `${cache.id}x`,
    cache.id.toUpperCase(),
  ];
  for (const id of [unknownId, gone.id, ...strange]) {
    const asked = await askWith(service, id, [said('soon deleted'), said('Hi')]);
    t.equal(asked.status, 200, id);
    t.strictSame(asked.cache, { status: 'unknown', 'miss-reason': 'there is no such cache' }, id);
    t.equal(asked.text, 'Hi');
  }
});

t.test('a tag is no id', async (t) => {
  await readyCache(service, { messages: [said('tagged')], tags: ['header-tag'] });
  const asked = await askWith(service, 'header-tag', [said('tagged'), said('Hi')]);
  t.equal(asked.cache.status, 'unknown');
});

t.test('pending: at full price, and a hit once it is ready', async (t) => {
  const prefix = [said('/slow-one of this')];
  const { id } = await createCache(service, { messages: prefix });
  const chat = [...prefix, said('Hi')];
  for (const stream of [false, true]) {
    const asked = await askWith(service, id, chat, { stream });
    t.strictSame(asked.cache, { status: 'pending', 'miss-reason': 'the cache is not ready yet' });
    t.equal(asked.text, 'Hi');
    t.notOk('cached_tokens' in (asked.usage[0] ?? {}));
  }
  const other = await askWith(service, id, [said('not it'), said('Hi')]);
  t.equal(other.cache.status, 'miss', 'a mismatch is one in every state');
  letGo(service.dataDir, 'one');
  const ready = await untilCache(service, id, { status: 'ready' });
  t.strictSame((await askWith(service, id, chat)).cache, hitHeaders(ready));
});

t.test('expired', async (t) => {
  const prefix = [said('a short life')];
  const { id } = await createCache(service, { messages: prefix, ttl: 1 });
  await untilCache(service, id, { status: 'inactive' });
  for (const stream of [false, true]) {
    const asked = await askWith(service, id, [...prefix, said('Hi')], { stream });
    t.strictSame(asked.cache, { status: 'expired', 'miss-reason': 'the cache has expired' });
    t.equal(asked.text, 'Hi');
    t.notOk('cached_tokens' in (asked.usage[0] ?? {}));
  }
});

t.test('error', async (t) => {
  const late = await createCache(service, { messages: [said('late')], expired_at: 1 });
  const refused = await createCache(service, { messages: [said('/refused')] });
  for (const { id } of [late, refused]) {
    const { messages: prefix } = await untilCache(service, id, { status: 'error' });
    const asked = await askWith(service, id, [...prefix, said('Hi')]);
    t.equal(asked.status, 200);
    t.equal(asked.cache.status, 'error');
    t.match(asked.cache['miss-reason'], /^[\x20-\x7e]+$/);
    t.equal(asked.text, 'Hi');
  }
});

t.test('a model of another family', async (t) => {
  const two = await openWithSettings(t, {
    models: {
      'svc-v1-8k': { family: 'svc-v1', window: 8192 },
      'other-8k': { family: 'other', window: 8192 },
    },
  });
  const own = await readyCache(two, { messages: [said('of one family')] });
  const chat = [said('of one family'), said('Hi')];
  const asked = await askWith(two, own.id, chat, { model: 'other-8k' });
  t.strictSame(asked.cache, {
    status: 'miss',
    'miss-reason': 'the model is not of the family of the cache',
  });
  t.equal((await askWith(two, own.id, chat)).cache.status, 'hit');
});

t.test("another owner's live id is 403, a dead one is unknown", async (t) => {
  const chat = [...messages, said('Hi')];
  const live = await askWith(service, cache.id, chat, { tools, headers: asBob });
  t.match(live, { status: 403, error: 'You are not allowed to get other user info' });
  const gone = await readyCache(service, { messages: [said('deleted')] });
  await service.call('DELETE', `/caching/${gone.id}`);
  const dead = await askWith(service, gone.id, chat, { tools, headers: asBob });
  t.match(dead, { status: 200, cache: { status: 'unknown' } });
});

t.test('headers that hold no 0 or 1, and no seconds in [1, 3600], are 400', async (t) => {
  const bad = {
    'x-svc-context-cache-dryrun': ['2', 'true', 'yes', '-1', '01', '1 1', '１', ''],
    'x-svc-context-cache-reset-ttl': [
      '0',
      '3601',
      '-1',
      '1.5',
      '1e3',
      'x',
      '0x10',
      '٣',
      '',
      '9'.repeat(40),
    ],
  };
  for (const [header, values] of Object.entries(bad)) {
    for (const value of values) {
      for (const id of [cache.id, unknownId, null]) {
        const headers = {
          [header]: encodeHeader(value),
          ...(id ? { 'x-svc-context-cache': id } : {}),
        };
        const body = { model, messages: [said('Hi')] };
        const response = await service.call('POST', '/chat/completions', body, headers);
        const found = await refusal(t, response, `${header}: ${value}`);
        t.match(found, { status: 400, type: 'invalid_request_error' }, `${header}: ${value}`);
        t.match(found.message.toLowerCase(), header, 'it names the header');
        t.equal(found.param?.toLowerCase(), header);
      }
    }
  }
});

/** A header carries bytes: what is beyond Latin-1 goes as its UTF-8. */
function encodeHeader(value: string): string {
  return Buffer.from(value).toString('latin1');
}

t.test('good values at their bounds, also without a cache', async (t) => {
  for (const [header, value] of [
    ['x-svc-context-cache-dryrun', '0'],
    ['x-svc-context-cache-reset-ttl', '1'],
    ['x-svc-context-cache-reset-ttl', '3600'],
  ] as const) {
    const asked = await ask(service, [said('Hi')], { [header]: value });
    t.match(asked, { status: 200, text: 'Hi' }, `${header}: ${value}`);
    t.strictSame(asked.cache, {}, 'applied only where a cache is named');
  }
});

t.test('every other check of a chat comes as without a cache', async (t) => {
  const headers = { 'x-svc-context-cache': cache.id };
  const unknown = await ask(service, [said('Hi')], headers, { model: 'gpt' });
  t.match(unknown, { status: 404, error: 'Not found the model or Permission denied' });
  const foreign = { ...headers, ...asBob };
  t.equal((await ask(service, [said('Hi')], foreign, { model: 'gpt' })).status, 404, 'model first');
  const long = await ask(service, [...messages, said('Hi')], headers, { tools, max_tokens: 8192 });
  t.match(long, { status: 400, error: 'Your request exceeded model token limit : 8192' });
  t.equal((await ask(service, [], headers)).status, 400);
});
