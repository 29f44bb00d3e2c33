/**
 * Owns the proof that an answer which is gathered counts as memory while it grows, and ends where there is no room.
 * It must take the answers from the events of a generation, as they come.
 */
import t from 'tap';
import { ChatReply } from '../../src/chat/chat-reply.js';
import type { ReadyChat } from '../../src/chat/ready-chat.js';
import { ApiError } from '../../src/errors.js';
import {
  type Choice,
  completion,
  type TokenLogprobs,
  type Usage,
  type WireCompletion,
} from '../../src/protocol/completion.js';

const chance = { token: 'é', logprob: -1.25, bytes: [195, 169] };
const token: TokenLogprobs = { ...chance, top: Array.from({ length: 20 }, () => chance) };
const usage = { promptTokens: 1, completionTokens: 1, cachedTokens: null };

/** The part of a chat that a reply reads. */
const chat = {
  choices: 2,
  answer: {
    whole: (choices: Choice[], used: Usage) =>
      completion({ id: 'chatcmpl-1', createdS: 1, model: 'm' }, choices, used),
  },
  describeToken: (one: TokenLogprobs) => one,
  newCallId: () => 'call_1',
} as unknown as ReadyChat;

function world(roomBytes: number) {
  const seen = { held: 0, stopped: 0 };
  const reply = new ChatReply(chat, {
    onContent: () => {},
    hold(bytes) {
      if (seen.held + bytes > roomBytes) throw new ApiError('overloaded');
      seen.held += bytes;
    },
    stop() {
      seen.stopped += 1;
    },
  });
  const say = (times: number) => {
    for (let i = 0; i < times; i++) {
      reply.delta(i % 2, { type: 'content', text: 'é', logprobs: [token] });
    }
  };
  return { seen, reply, say };
}

t.test('what is gathered is counted as long as it is in the answer', async (t) => {
  const { seen, reply, say } = world(Number.POSITIVE_INFINITY);
  say(2_000);
  reply.delta(0, { type: 'call', index: 0, name: 'f' });
  reply.delta(0, { type: 'arguments', index: 0, text: 'x'.repeat(100_000) });
  reply.ended(null);
  t.ok(await reply.whole);
  const body = reply.body(usage);
  t.ok(seen.held > 0.9 * body.length, `${seen.held} of ${body.length} bytes`);
  const { choices } = JSON.parse(body.toString()) as WireCompletion;
  t.equal(choices[0]?.message.content, 'é'.repeat(1_000));
  t.equal(choices[1]?.logprobs?.content.length, 1_000);
  t.same(choices[1]?.logprobs?.content.at(-1), {
    ...chance,
    top_logprobs: Array.from({ length: 20 }, () => chance),
  });
  t.equal(seen.stopped, 0);
});

t.test('without room the generation is stopped, and the chat is refused', async (t) => {
  const { seen, reply, say } = world(300_000);
  const refused = t.rejects(reply.whole, { name: 'ApiError', message: /overloaded/ });
  say(2_000);
  t.equal(seen.stopped, 1);
  t.ok(seen.held <= 300_000);
  // A generation that is stopped ends without an error of its own.
  reply.ended(null);
  await refused;
});
