/**
 * Owns the way back from a place in a rendered prompt to the message that the client wrote.
 * It must never give a text out: a place is an index and a number of characters.
 */
import type { ChatMessage } from '../protocol/message.js';

export interface TextPlace {
  /** Index of the message. */
  readonly message: number;
  /** Code points of its text before the place. */
  readonly character: number;
}

/** Characters of a message by which it is found in the prompt. */
const FOUND_BY = 48;

/**
 * @param unit UTF-16 units of the prompt before the place.
 * @returns null for a place outside of every text: in the tools, or in what the template writes itself.
 */
export function textPlace(
  prompt: string,
  unit: number,
  messages: readonly ChatMessage[],
): TextPlace | null {
  let from = 0;
  for (const [message, { content }] of messages.entries()) {
    if (typeof content !== 'string' || content === '') continue;
    // A template may trim what it is given.
    const text = content.trim();
    const lead = content.indexOf(text);
    const at = prompt.indexOf(text.slice(0, Math.min(FOUND_BY, Math.max(1, unit - from))), from);
    if (at < 0 || at > unit) return null;
    const inside = unit - at;
    if (inside < text.length && prompt.startsWith(text.slice(0, inside), at))
      return { message, character: [...content.slice(0, lead + inside)].length };
    from = at + text.length;
  }
  return null;
}

/** UTF-16 units at the beginning that are equal; a pair of surrogates is not parted. */
export function commonUnits(one: string, other: string): number {
  const end = Math.min(one.length, other.length);
  let unit = 0;
  while (unit < end && one[unit] === other[unit]) unit++;
  const last = one.charCodeAt(unit - 1);
  return last >= 0xd800 && last < 0xdc00 ? unit - 1 : unit;
}
