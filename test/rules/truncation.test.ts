/** Owns the proof that the oldest messages go, and nothing that others need. */
import t from 'tap';
import type { ChatMessage, Role } from '../../src/protocol/message.js';
import { withoutOldest } from '../../src/rules/truncation.js';

const message = (role: Role, content: string): ChatMessage => ({
  role,
  content,
  name: null,
  toolCalls: [],
  toolCallId: role === 'tool' ? 'c' : null,
  partial: false,
});
const talk = (...turns: readonly (readonly [Role, string])[]) =>
  turns.map(([role, content]) => message(role, content));
const texts = (messages: readonly ChatMessage[] | null) =>
  messages?.map(({ content }) => content) ?? null;

t.test('the oldest go, until enough is gone', async (t) => {
  const messages = talk(['system', 'S'], ['user', 'aaaa'], ['assistant', 'bbbb'], ['user', 'cccc']);
  t.same(texts(withoutOldest(messages, 0.01)), ['S', 'bbbb', 'cccc']);
  t.same(texts(withoutOldest(messages, 0.5)), ['S', 'cccc']);
  t.same(texts(withoutOldest(messages, 1)), ['S', 'cccc']);
});

t.test('a result goes with its call', async (t) => {
  const messages = talk(
    ['user', 'a'],
    ['assistant', 'b'],
    ['tool', 'c'],
    ['tool', 'd'],
    ['user', 'e'],
  );
  t.same(texts(withoutOldest(messages, 0.3)), ['e']);
});

t.test('nothing more can go', async (t) => {
  t.equal(withoutOldest(talk(['system', 'S'], ['user', 'a']), 0.5), null);
  t.equal(withoutOldest(talk(['system', 'S']), 0.5), null);
  t.equal(withoutOldest(talk(['assistant', 'b'], ['tool', 'c']), 0.5), null);
});
