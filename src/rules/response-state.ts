/**
 * Owns the life of a kept response and of a conversation: what each message makes of their records.
 * It must stay pure: what is written beside a record is named, and written by others.
 */
import { ApiError, invalid } from '../errors.js';
import { limits } from '../limits/index.js';

export type KeptStatus = 'queued' | 'completed' | 'incomplete' | 'failed' | 'cancelled';

/** What the store keeps of a response, apart from its items. */
export interface ResponseRecord {
  readonly id: string;
  readonly owner: string;
  readonly createdS: number;
  readonly expiresS: number;
  readonly status: KeptStatus;
  /** Of all that is kept of it. */
  readonly bytes: number;
  /** Those of its events; absent where none are kept. */
  readonly eventBytes?: number;
  /** The response that this one goes on from. */
  readonly previous: string | null;
  readonly background: boolean;
  /** Its events are kept. */
  readonly streamed: boolean;
}

export type ResponseMessage =
  | { readonly type: 'create'; readonly record: ResponseRecord }
  | {
      readonly type: 'end';
      readonly status: KeptStatus;
      readonly bytes: number;
      readonly eventBytes: number;
    }
  | { readonly type: 'delete' };

export interface RecordDecision<Record> {
  readonly next: Record | null;
  /** The record as it is now; for `delete` as it was. */
  readonly reply: Record | null;
  readonly save: 'now' | 'no';
}

export function responseTransition(
  state: ResponseRecord | null,
  message: ResponseMessage,
): RecordDecision<ResponseRecord> {
  const next = changedResponse(state, message);
  const reply = message.type === 'delete' ? state : next;
  return { next, reply, save: next === state ? 'no' : 'now' };
}

function changedResponse(
  state: ResponseRecord | null,
  message: ResponseMessage,
): ResponseRecord | null {
  switch (message.type) {
    case 'create':
      return created(state, message.record);
    case 'end': {
      // The first end counts; one that was deleted meanwhile stays gone.
      if (state?.status !== 'queued') return state;
      const { status, bytes, eventBytes } = message;
      return { ...state, status, bytes, ...(eventBytes > 0 && { eventBytes }) };
    }
    case 'delete':
      return null;
  }
}

export interface ConversationRecord {
  readonly id: string;
  readonly owner: string;
  readonly createdS: number;
  readonly metadata: { readonly [key: string]: unknown };
  /** The parts of its items, in their order, with the bytes of each. */
  readonly parts: readonly { readonly number: number; readonly bytes: number }[];
  /** Number of the next part. */
  readonly next: number;
}

export type ConversationMessage =
  | { readonly type: 'create'; readonly record: ConversationRecord }
  /** @param isMade a model has made it: it finds room where there is any. */
  | { readonly type: 'append'; readonly bytes: number; readonly isMade: boolean }
  | { readonly type: 'replace'; readonly number: number; readonly bytes: number }
  | { readonly type: 'describe'; readonly metadata: ConversationRecord['metadata'] }
  | { readonly type: 'delete' };

export function conversationTransition(
  state: ConversationRecord | null,
  message: ConversationMessage,
): RecordDecision<ConversationRecord> {
  const next = changedConversation(state, message);
  const reply = message.type === 'delete' ? state : next;
  return { next, reply, save: next === state ? 'no' : 'now' };
}

function changedConversation(
  state: ConversationRecord | null,
  message: ConversationMessage,
): ConversationRecord | null {
  if (message.type === 'create') return created(state, message.record);
  if (state === null || message.type === 'delete') return null;
  const { parts, next } = state;
  switch (message.type) {
    case 'append': {
      const { bytes, isMade } = message;
      assertRoom(state, isMade ? MADE : { more: bytes, param: 'items' });
      return { ...state, parts: [...parts, { number: next, bytes }], next: next + 1 };
    }
    case 'replace':
      return {
        ...state,
        parts: parts.map((part) =>
          part.number === message.number ? { ...part, bytes: message.bytes } : part,
        ),
      };
    case 'describe':
      return { ...state, metadata: message.metadata };
  }
}

/** What is to follow in a conversation. */
export interface Following {
  /** Bytes to come. */
  readonly more: number;
  /** The field of the request that asks for it. */
  readonly param: 'conversation' | 'items';
}

/** What a response adds. */
const MADE: Following = { more: 0, param: 'conversation' };

/** @throws ApiError where no more items can follow. */
export function assertRoom(record: ConversationRecord, { more, param }: Following): void {
  const { conversationBytesMax: bytesMax, conversationPartsMax: partsMax } = limits;
  const bytes = conversationBytes(record);
  if (record.parts.length < partsMax && bytes < bytesMax && bytes + more <= bytesMax) return;
  const got = `this one has ${record.parts.length}, with ${bytes} bytes${more > 0 ? `, and would get ${more} bytes more` : ''}`;
  throw invalid(
    `a conversation takes at most ${partsMax} responses and additions, with ${bytesMax} bytes together, and ${got}: begin another one`,
    param,
  );
}

export function conversationBytes({ parts }: ConversationRecord): number {
  return parts.reduce((sum, { bytes }) => sum + bytes, 0);
}

function created<Record extends { readonly id: string }>(state: Record | null, record: Record) {
  if (state !== null) throw new ApiError('server', { error: `the id ${record.id} is taken` });
  return record;
}
