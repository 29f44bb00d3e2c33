/** Owns the proof that a compaction keeps what later prompts begin with, and shows what the client refers to. */
import t from 'tap';
import { limits } from '../../src/limits/index.js';
import type { ChatRequest } from '../../src/protocol/chat.js';
import { parseCompaction } from '../../src/protocol/compaction.js';
import type { Earlier } from '../../src/protocol/goes-on.js';

type Fields = Readonly<Record<string, unknown>>;

const parsed = (fields: Fields, earlier?: Earlier): ChatRequest =>
  parseCompaction({ model: 'svc-v1-8k', ...fields }, earlier);
const user = (content: unknown) => ({ role: 'user', content });

t.test('what is kept of the prompt ends before the task', (t) => {
  const marks = (fields: Fields, earlier?: Earlier) =>
    parsed(fields, earlier).marks.map(({ messages, parts }) => [messages, parts]);
  const input = [user('one'), { role: 'assistant', content: 'two' }];
  t.same(marks({ input }), []);
  t.equal(parsed({ input }).messages.length, 3, 'the task is the last');
  t.same(marks({ input, prompt_cache_key: 'k' }), [[2, null]]);
  t.same(marks({ input, prompt_cache_key: 'k', instructions: 'S' }), [[3, null]]);
  t.same(marks({ input: [{ type: 'reasoning', summary: [] }], prompt_cache_key: 'k' }), []);
  const first = { type: 'input_text', text: 'a', prompt_cache_breakpoint: { mode: 'explicit' } };
  const parts = [user([first, { type: 'input_text', text: 'b' }])];
  t.same(marks({ input: parts }), [[0, 1]], 'a place inside a message stays');
  t.end();
});

t.test('a message that is referred to stays word for word', (t) => {
  const message = { type: 'message', ...user([{ type: 'input_text', text: 'one' }]) };
  const answer = { type: 'message', role: 'assistant', content: 'two' };
  const earlier = { items: [], referenced: { msg_1: message, msg_2: answer } };
  const input = ['msg_1', 'msg_2'].map((id) => ({ type: 'item_reference', id }));
  t.match(JSON.parse(parsed({ input }, earlier).echo?.given ?? ''), [message]);
  const { length } = JSON.parse(parsed({ input }, earlier).echo?.given ?? '') as unknown[];
  t.equal(length, 1, 'what the model said is summed up');
  t.end();
});

t.test('an empty input is named as the client wrote it', (t) => {
  const message = 'Invalid request: input must not be empty';
  for (const input of ['', []]) t.throws(() => parsed({ input }), { message });
  t.throws(() => parsed({ input: '' }, { items: [user('one')], referenced: {} }), { message });
  t.end();
});

t.test(
  'the task has room behind the longest input, and a longer one is told its own length',
  (t) => {
    const input = Array(limits.messagesMax - 1).fill(user('x'));
    t.equal(parsed({ input }).messages.length, limits.messagesMax);
    const message = 'Invalid request: input must have at most 4095 items, got 4096';
    t.throws(() => parsed({ input: [...input, user('x')] }), { message });
    t.end();
  },
);
