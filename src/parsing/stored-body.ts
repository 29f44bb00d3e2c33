/**
 * Owns the stored form of a cache's messages and tools.
 * It must never change them: what is answered is what came in.
 */
import { decodeRecord, encodeRecord } from '../codec.js';
import type { CanonicalPrefix } from '../rules/prefix.js';

export function encodeBody({ messages, tools }: CanonicalPrefix): Uint8Array {
  return encodeRecord({ messages, tools });
}

export function decodeBody(bytes: Uint8Array): CanonicalPrefix {
  return decodeRecord<CanonicalPrefix>(bytes);
}
