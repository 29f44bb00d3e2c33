/**
 * Owns how one step of a generation becomes events, for streams that are sent and for those that are kept.
 * It must never hold any state of a stream.
 */
import type { ReadyChat } from '../chat/ready-chat.js';
import type { TokenLogprobs } from '../protocol/completion.js';
import type { AnswerStream } from '../protocol/wire-form.js';
import type { AnswerDelta, AnswerLogprob } from '../rules/answer.js';

export function deltaEvents(
  writer: AnswerStream,
  chat: ReadyChat,
  choice: number,
  delta: AnswerDelta,
): string {
  switch (delta.type) {
    case 'reasoning':
      return writer.reasoning(choice, delta.text);
    case 'call': {
      const { index, name } = delta;
      return writer.call(choice, { index, id: chat.newCallId(), name });
    }
    case 'arguments':
      return writer.callArguments(choice, delta.index, delta.text);
    case 'content':
      return writer.content(choice, delta.text, described(chat, delta.logprobs));
    case 'prompt':
      return writer.prompt?.(choice, delta.text, described(chat, delta.logprobs)) ?? '';
  }
}

function described(
  chat: ReadyChat,
  tokens: readonly AnswerLogprob[] | null,
): readonly TokenLogprobs[] | null {
  return tokens?.map((token) => chat.describeToken(token)) ?? null;
}
