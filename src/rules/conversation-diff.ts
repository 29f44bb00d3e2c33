/**
 * Owns the answer to where two conversations part: the message, the place in it, and how many messages they share.
 * It must never put a client's text into the answer, nor compare what is not canonical.
 */
import { type CanonicalPrefix, missReason } from './prefix.js';

export interface ConversationDiff {
  /** Leading messages that are equal; 0 where the tools differ. */
  readonly sharedMessages: number;
  /** Messages of each. */
  readonly messages: readonly [number, number];
  /** The first place that differs, in printable ASCII; null where the one goes on from the other, or both are equal. */
  readonly difference: string | null;
  /** Index of the first message that differs or that one of them lacks; null where the tools differ, or nothing does. */
  readonly message: number | null;
  /** Code points before the first different one of a text; null where no text differs. */
  readonly character: number | null;
}

const CHARACTER = / at character (\d+)$/;

export function conversationDiff(one: CanonicalPrefix, other: CanonicalPrefix): ConversationDiff {
  const messages = [one.messages.length, other.messages.length] as const;
  // Beginnings of one length: what only one of them has is no difference in a text.
  const shorter = Math.min(...messages);
  const first = { ...one, messages: one.messages.slice(0, shorter) };
  const second = { ...other, messages: other.messages.slice(0, shorter) };
  const difference = missReason(first, second);
  if (difference !== null && !difference.startsWith('messages[')) {
    return {
      sharedMessages: 0,
      messages,
      difference,
      message: null,
      character: characterOf(difference),
    };
  }
  const at = first.messages.findIndex((text, index) => text !== second.messages[index]);
  const sharedMessages = at < 0 ? shorter : at;
  const message = sharedMessages === Math.max(...messages) ? null : sharedMessages;
  return { sharedMessages, messages, difference, message, character: characterOf(difference) };
}

function characterOf(difference: string | null): number | null {
  const found = CHARACTER.exec(difference ?? '')?.[1];
  return found === undefined ? null : Number(found);
}
