/**
 * Owns how batches are stored: the record, its index keys, and one record for each line that has its result.
 * It must never write: it lists the changes for a commit.
 */
import { decodeRecord, encodeRecord } from '../codec.js';
import { type BatchRecord, type BatchState, batchHasEnded } from '../rules/batch-state.js';
import type { Store, StoreChange, StoreEntry, StoreKey } from '../store/store.js';

export const batchKeys = {
  record: (id: string): StoreKey => ['batch', id],
  owned: (owner: string): StoreKey => ['batch-by-owner', owner],
  /** Batches that have not ended, or whose results still lie beside them. */
  open: ['batch-open'],
  /** Files that batches which have not ended read. */
  input: (fileId: string): StoreKey => ['batch-input', fileId],
  lines: (id: string): StoreKey => ['batch-line', id],
  line: (id: string, at: number): StoreKey => ['batch-line', id, at],
} as const;

/** What clients see before an id. */
export const BATCH_PREFIX = 'batch_';

/** @param id as a client writes it. */
export function storedBatchId(id: string): string {
  return id.startsWith(BATCH_PREFIX) ? id.slice(BATCH_PREFIX.length) : id;
}

const EMPTY = new Uint8Array(0);

/** What a line came to. */
export interface LineResult {
  readonly failed: boolean;
  /** The line of the output or error file, with its newline. */
  readonly text: string;
}

export function listPlace({ createdS, id }: Pick<BatchRecord, 'createdS' | 'id'>): StoreKey {
  return [createdS, id];
}

export function batchIdOf({ key }: StoreEntry): string {
  return String(key.at(-1));
}

export function batchIndexChanges(before: BatchState, next: BatchState): readonly StoreChange[] {
  const old = indexKeys(before);
  const kept = indexKeys(next);
  const has = (keys: readonly StoreKey[], key: StoreKey) =>
    keys.some((other) => JSON.stringify(other) === JSON.stringify(key));
  return [
    ...old.filter((key) => !has(kept, key)).map((key) => ({ type: 'remove' as const, key })),
    ...kept
      .filter((key) => !has(old, key))
      .map((key) => ({ type: 'put' as const, key, value: EMPTY })),
  ];
}

function indexKeys(state: BatchState): readonly StoreKey[] {
  if (state === null) return [];
  const owned = [...batchKeys.owned(state.owner), ...listPlace(state)];
  const open = [...batchKeys.open, state.id];
  if (batchHasEnded(state)) return state.hasLines === true ? [owned, open] : [owned];
  return [owned, open, [...batchKeys.input(state.inputFileId), state.id]];
}

/** Of its input, also of those that have no result. */
export function lineNumbers({ total }: Pick<BatchRecord, 'total'>): number[] {
  return Array.from({ length: total }, (_, index) => index + 1);
}

export function lineChange(id: string, at: number, result: LineResult): StoreChange {
  return { type: 'put', key: batchKeys.line(id, at), value: encodeRecord(result) };
}

export function lineResult(store: Store, id: string, at: number): LineResult | null {
  const record = store.get(batchKeys.line(id, at));
  return record === null ? null : decodeRecord<LineResult>(record.value);
}
