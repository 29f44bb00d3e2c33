/**
 * Owns how responses and conversations are stored: records, items, events, and every index key that a record implies.
 * It must never write: it lists the changes for a commit.
 */
import type { ConversationRecord, ResponseRecord } from '../rules/response-state.js';
import type { StoreChange, StoreEntry, StoreKey } from '../store/store.js';

export const responseKeys = {
  record: (id: string): StoreKey => ['response', id],
  /** Input and response object. */
  body: (id: string): StoreKey => ['response-body', id],
  /** The events of a stream that can be taken up again. */
  events: (id: string): StoreKey => ['response-events', id],
  /** The oldest first. */
  owned: (owner: string): StoreKey => ['response-by-owner', owner],
  /** By the time of expiry. */
  due: ['response-due'],
  /** Those that are being made. */
  open: ['response-open'],
} as const;

export const conversationKeys = {
  record: (id: string): StoreKey => ['conversation', id],
  items: (id: string): StoreKey => ['conversation-items', id],
  part: (id: string, number: number): StoreKey => ['conversation-items', id, number],
  owned: (owner: string): StoreKey => ['conversation-by-owner', owner],
} as const;

const EMPTY = new Uint8Array(0);

/** The id is the last element of every index key. */
export function keptIdOf({ key }: StoreEntry): string {
  return String(key.at(-1));
}

export function responseIndexChanges(
  before: ResponseRecord | null,
  next: ResponseRecord | null,
): readonly StoreChange[] {
  return changes(before && responseIndex(before), next && responseIndex(next));
}

export function conversationIndexChanges(
  before: ConversationRecord | null,
  next: ConversationRecord | null,
): readonly StoreChange[] {
  return changes(before && conversationIndex(before), next && conversationIndex(next));
}

/** All that is stored beside the record. */
export function responseParts({ id, streamed }: ResponseRecord): readonly StoreKey[] {
  return [responseKeys.body(id), ...(streamed ? [responseKeys.events(id)] : [])];
}

export function conversationParts({ id, parts }: ConversationRecord): readonly StoreKey[] {
  return parts.map(({ number }) => conversationKeys.part(id, number));
}

export function removals(keys: readonly StoreKey[]): readonly StoreChange[] {
  return keys.map((key) => ({ type: 'remove', key }));
}

function responseIndex({ id, owner, createdS, expiresS, status }: ResponseRecord) {
  return [
    [...responseKeys.owned(owner), createdS, id],
    [...responseKeys.due, expiresS, id],
    ...(status === 'queued' ? [[...responseKeys.open, id]] : []),
  ];
}

function conversationIndex({ id, owner, createdS }: ConversationRecord): readonly StoreKey[] {
  return [[...conversationKeys.owned(owner), createdS, id]];
}

function changes(
  before: readonly StoreKey[] | null,
  next: readonly StoreKey[] | null,
): readonly StoreChange[] {
  const text = (key: StoreKey) => JSON.stringify(key);
  const old = new Set((before ?? []).map(text));
  const kept = new Set((next ?? []).map(text));
  return [
    ...removals((before ?? []).filter((key) => !kept.has(text(key)))),
    ...(next ?? [])
      .filter((key) => !old.has(text(key)))
      .map((key) => ({ type: 'put', key, value: EMPTY }) as const),
  ];
}
