/**
 * Owns the prefixes of a conversation that a request marks: what each holds, its hash, and which shorter ones there are.
 * It must never give two different prefixes one form: one that ends inside a message says so.
 */
import { canonicalJson } from '../codec.js';
import type { PrefixMark } from '../protocol/prefix-mark.js';
import type { JsonObject } from '../protocol/schema.js';
import {
  type CanonicalPrefix,
  nextLink,
  type PrefixHash,
  type PrefixOwner,
  prefixChain,
} from './prefix.js';

type Place = Pick<PrefixMark, 'messages' | 'parts'>;

export interface MarkedHashes {
  /** Of the marks, in their order. */
  readonly marks: readonly PrefixHash[];
  /** Of all prefixes up to the last mark, the longest first. */
  readonly back: readonly PrefixHash[];
}

/** The prefix up to a place. A message that goes on behind it is marked as `partial`. */
export function prefixAt(
  { messages, tools }: CanonicalPrefix,
  { messages: whole, parts }: Place,
): CanonicalPrefix {
  const begun = messages.slice(0, whole);
  if (parts === null) return { messages: begun, tools };
  return { messages: [...begun, beginning(messages[whole] ?? '{}', parts)], tools };
}

function beginning(message: string, parts: number): string {
  const wire = JSON.parse(message) as JsonObject & { readonly content: readonly JsonObject[] };
  const content = wire.content.slice(0, parts);
  const text = content.length === 1 ? content[0]?.text : content;
  return canonicalJson({ ...wire, content: text, partial: true });
}

/** @param marks the shortest first. @param backMax the most of `back`. */
export function markedHashes(
  of: PrefixOwner,
  prefix: CanonicalPrefix,
  marks: readonly PrefixMark[],
  backMax: number,
): MarkedHashes {
  const chain = prefixChain(of, prefix);
  const hashAt = ({ messages, parts }: Place): PrefixHash => {
    const link = chain[messages] as PrefixHash;
    if (parts === null) return link;
    return nextLink(link, beginning(prefix.messages[messages] ?? '{}', parts));
  };
  const last = marks.at(-1);
  const places = last === undefined ? [] : placesBefore(prefix, last, backMax);
  return { marks: marks.map(hashAt), back: places.map(hashAt) };
}

function placesBefore({ messages, tools }: CanonicalPrefix, last: Place, max: number): Place[] {
  const places: Place[] = [];
  let { messages: whole, parts } = last;
  while (places.length < max) {
    // Nothing at all is no prefix.
    if (whole === 0 && parts === null && tools.length === 0) break;
    places.push({ messages: whole, parts });
    if (parts !== null && parts > 1) parts -= 1;
    else if (parts !== null) parts = null;
    else if (whole === 0) break;
    else {
      whole -= 1;
      const more = partsOf(messages[whole]) - 1;
      parts = more > 0 ? more : null;
    }
  }
  return places;
}

/** 1 for a text. */
function partsOf(message = '{}'): number {
  // Only a list of parts is worth the parse.
  if (!message.includes('"content":[')) return 1;
  const { content } = JSON.parse(message) as JsonObject;
  return Array.isArray(content) ? content.length : 1;
}
