/** Owns the proof of what a chat with a `cache` message may say, and of what it becomes. */
import t from 'tap';
import {
  beginsWithCache,
  cacheMessage,
  checkBesideCache,
  parseCachedChat,
} from '../../src/protocol/cached-chat.js';

const cache = { role: 'cache', content: 'cache_id=cache-a' };
const user = { role: 'user', content: 'And then?' };
const chat = (messages: unknown[], more: object = {}) => ({ model: 'm', messages, ...more });
const call = {
  role: 'assistant',
  content: '',
  tool_calls: [{ id: 'c1', type: 'function', function: { name: 'look', arguments: '{}' } }],
};
const result = { role: 'tool', tool_call_id: 'c1', content: 'seen' };
const tool = { type: 'function', function: { name: 'look', parameters: { type: 'object' } } };

t.test('only a first message of role cache counts', async (t) => {
  t.notOk(beginsWithCache(chat([user, cache])));
  t.notOk(beginsWithCache('text'));
  t.ok(beginsWithCache(chat([cache, user])));
  t.match(cacheMessage(chat([cache, user])), { name: { id: 'cache-a' } });
});

t.test('tools must be null beside it, an empty list counts as a value', async (t) => {
  t.ok(checkBesideCache(chat([cache], { tools: null })));
  for (const tools of [[], [tool], 'none']) {
    t.throws(() => checkBesideCache(chat([cache], { tools })), {
      status: 400,
      message: /tools must be null when the first message has role 'cache', got/,
    });
  }
});

t.test('its content must be text', async (t) => {
  const wrong = { role: 'cache', content: [{ type: 'text', text: 'cache_id=a' }] };
  t.throws(() => cacheMessage(chat([wrong])), { message: /messages\[0\]\.content/ });
});

t.test('the rest is checked with the positions the client sees', async (t) => {
  t.throws(() => checkBesideCache(chat([cache, user, { role: 'user', content: '' }])), {
    message: /position 2 with role 'user' must not be empty/,
  });
  t.throws(() => checkBesideCache(chat([cache, user], { n: 9 })), { message: /\bn\b/ });
  t.throws(() => checkBesideCache(chat([cache, cache])), { message: /role/ });
});

t.test(
  'an image is named as the client wrote it, or by the message that names the cache',
  async (t) => {
    const image = { type: 'image_url', image_url: { url: 'data:image/png;base64,AA==' } };
    const seen = { role: 'user', content: [{ type: 'text', text: 'Look' }, image] };
    const { messages } = parseCachedChat(chat([cache, user, seen]), {
      messages: [user, seen],
      tools: [],
    });
    t.same(
      messages.flatMap(({ content }) =>
        typeof content === 'string'
          ? []
          : content.flatMap((part) => (part.type === 'image' ? part.field : [])),
      ),
      ['messages[0]', 'messages[2].content[1].image_url.url'],
    );
  },
);

t.test('calls and tools may lie in the cache', async (t) => {
  checkBesideCache(chat([cache, result, user], { tool_choice: 'required' }));
  const whole = parseCachedChat(chat([cache, result, user], { tool_choice: 'required' }), {
    messages: [user, call],
    tools: [tool],
  });
  t.same(
    whole.messages.map(({ role }) => role),
    ['user', 'assistant', 'tool', 'user'],
  );
  t.equal(whole.toolChoice.type, 'required');
  t.equal(whole.tools.length, 1);
});

t.test('a result whose call is nowhere is refused once the cache is known', async (t) => {
  const request = chat([cache, result]);
  t.throws(() => parseCachedChat(request, { messages: [user, user], tools: [] }), {
    message: /the message at position 1 with role 'tool'/,
    extra: { param: 'messages[1].tool_call_id' },
  });
});

t.test('the cached messages can be the whole conversation', async (t) => {
  checkBesideCache(chat([cache]));
  const whole = parseCachedChat(chat([cache]), { messages: [user], tools: [] });
  t.equal(whole.messages.length, 1);
});
