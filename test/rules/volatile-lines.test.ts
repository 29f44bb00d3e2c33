/**
 * Owns the proof of which lines are taken as volatile, and of where they go.
 */
import t from 'tap';
import { parseChatRequest } from '../../src/protocol/chat.js';
import { wireForm } from '../../src/protocol/wire-forms.js';
import { isVolatile, movedVolatile } from '../../src/rules/volatile-lines.js';

const BILLING = 'x-anthropic-billing-header: cc_version=2.1.7.a3f; cc_entrypoint=cli; cch=00000;';

t.test('clocks, counters and billing marks', async (t) => {
  for (const line of [
    BILLING,
    'Current time: 14:03:22',
    'Today is Sunday, 22 November 2026, and it is 2:03 PM now.',
    'The current date and time is 2026-11-22 14:03:22.',
    '2026-11-22T14:03:22Z',
    'Request #417',
    'session_id: 7f3a9c12',
  ])
    t.ok(isVolatile(line), line);
  for (const line of [
    'You answer from this handbook.',
    'The harbour opens at 6:00.',
    'The current president is named in chapter 3.',
    'Be quick: time is money.',
    `Current time: 14:03 ${'and so on '.repeat(40)}`,
  ])
    t.notOk(isVolatile(line), line);
});

const system = (content: unknown) => ({ role: 'system', content });
const user = (content: unknown) => ({ role: 'user', content });
const moved = (messages: object[]) =>
  movedVolatile(parseChatRequest({ model: 'm', messages })).messages.map(({ content }) => content);

t.test('they go behind the last message, in their order', async (t) => {
  const clock = 'Current time: 14:03';
  t.strictSame(moved([system(`Rules.\n${clock}\nMore.\nRequest #7`), user('Hi')]), [
    'Rules.\nMore.',
    `Hi\n\n${clock}\nRequest #7`,
  ]);
  const [first, last] = moved([system('Rules.'), user(clock), user('Hi')]);
  t.strictSame([first, last], ['Rules.', clock], 'what a user wrote stays');
  const parts = [
    { type: 'text', text: clock },
    { type: 'text', text: 'Rules.' },
  ];
  t.strictSame(moved([system(parts), user('Hi')]), ['Rules.', `Hi\n\n${clock}`]);
  const answer = { role: 'assistant', content: 'So', partial: true };
  const partial = [system(clock), user('Hi'), answer];
  t.strictSame(moved(partial), [clock, 'Hi', 'So'], 'an answer that is begun goes on as it is');
});

t.test(
  'wire and rendered messages say the same, and marks leave the moved lines out',
  async (t) => {
    const request = wireForm('messages').parse({
      model: 'm',
      max_tokens: 9,
      system: [
        { type: 'text', text: BILLING },
        { type: 'text', text: 'You are a coder.', cache_control: { type: 'ephemeral' } },
      ],
      messages: [
        {
          role: 'user',
          content: [{ type: 'text', text: 'Hi', cache_control: { type: 'ephemeral' } }],
        },
      ],
    });
    const rule = movedVolatile(request);
    t.notMatch(JSON.stringify([rule.wireMessages[0], rule.messages[0]]), /billing/);
    t.match(JSON.stringify(rule.wireMessages.at(-1)), /billing/);
    t.match(JSON.stringify(rule.messages.at(-1)), /billing/);
    const covered = rule.marks.map(({ messages, parts }) => [messages, parts]);
    t.strictSame(covered, [
      [1, null],
      [1, null],
    ]);
  },
);
