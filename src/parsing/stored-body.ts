/**
 * Owns the stored form of a cache's messages and tools.
 * It must never change them: what is answered is what came in.
 */
import { decodeRecord, encodeRecord, encodeRecordInto } from '../codec.js';
import { copyOf, newMemory, type OwnBytes } from '../pool/memory.js';
import type { CachedContent } from '../protocol/cached-chat.js';
import type { JsonObject } from '../protocol/schema.js';
import type { CanonicalPrefix } from '../rules/prefix.js';

/** The stored messages and tools of a cache: how large they are, and how they are read. */
export interface StoredBody {
  readonly bytes: number;
  /** What it returns is the caller's, who may move or free it. @throws ApiError for what has gone meanwhile. */
  read(): Uint8Array;
}

/** Of bytes that somebody goes on to need. */
export function keptBody(stored: Uint8Array): StoredBody {
  const { buffer } = stored;
  const isMovable = buffer instanceof ArrayBuffer && buffer.resizable;
  return { bytes: stored.byteLength, read: () => (isMovable ? copyOf(stored) : stored) };
}

export function encodeBody({ messages, tools }: CanonicalPrefix): Uint8Array {
  return encodeRecord({ messages, tools });
}

/** A large one, in memory that can be moved. */
export function encodeLargeBody({ messages, tools }: CanonicalPrefix): OwnBytes {
  return encodeRecordInto({ messages, tools }, newMemory);
}

export function decodeBody(bytes: Uint8Array): CanonicalPrefix {
  return decodeRecord<CanonicalPrefix>(bytes);
}

/** Messages and tools as the client once sent them. */
export function wireContent(stored: Uint8Array): CachedContent {
  const { messages, tools } = decodeBody(stored);
  const parsed = (texts: readonly string[]) => texts.map((text) => JSON.parse(text) as JsonObject);
  return { messages: parsed(messages), tools: parsed(tools) };
}
