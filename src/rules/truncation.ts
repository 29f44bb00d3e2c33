/**
 * Owns which messages go where a conversation is longer than the window: the oldest, with the calls whose results go.
 * It must never leave out what the system says, nor the last message.
 */
import type { ChatMessage } from '../protocol/message.js';

/** @param share of the text that has to go, at least. @returns null where nothing more can go. */
export function withoutOldest(
  messages: readonly ChatMessage[],
  share: number,
): readonly ChatMessage[] | null {
  const first = messages.findIndex(({ role }) => role !== 'system');
  const rest = first < 0 ? [] : messages.slice(first);
  const goes = share * messages.reduce((sum, message) => sum + lengthOf(message), 0);
  let gone = 0;
  let at = 0;
  while (at < rest.length - 1 && (at === 0 || gone < goes)) {
    gone += lengthOf(rest[at]);
    at += 1;
  }
  // A result is nothing without its call.
  while (rest[at]?.role === 'tool') at += 1;
  return at === 0 || at >= rest.length ? null : [...messages.slice(0, first), ...rest.slice(at)];
}

function lengthOf(message: ChatMessage | undefined): number {
  if (message === undefined) return 0;
  const { content, toolCalls } = message;
  const said =
    typeof content === 'string'
      ? content.length
      : content.reduce((sum, part) => sum + (part.type === 'text' ? part.text.length : 0), 0);
  return toolCalls.reduce((sum, call) => sum + call.arguments.length, said);
}
