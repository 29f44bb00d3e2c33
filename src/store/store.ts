/**
 * Owns the contract of the store: ordered keys, versioned records, conditional commits.
 * It must never depend on what the records mean.
 */

import assert from 'node:assert';
import { limits } from '../limits/index.js';

/**
 * Compared element by element: numbers by size before strings by code point; a shorter key sorts before its
 * extensions. At most `limits.storeKeyBytesMax` bytes, finite numbers, no lone surrogates; −0 is 0.
 */
export type StoreKey = readonly (string | number)[];

export interface StoredRecord {
  /** Positive; grows with each commit of the record. */
  readonly version: number;
  readonly value: Uint8Array;
}

/** `expected`: the version that must be there now, null for "must not exist", undefined for "whatever". */
export type StoreChange =
  | {
      readonly type: 'put';
      readonly key: StoreKey;
      readonly value: Uint8Array;
      readonly expected?: number | null | undefined;
    }
  | {
      readonly type: 'remove';
      readonly key: StoreKey;
      readonly expected?: number | null | undefined;
    };

export interface StoreRange {
  readonly prefix: StoreKey;
  /** Both bounds are excluded. */
  readonly after?: StoreKey;
  readonly before?: StoreKey;
  readonly reverse?: boolean;
  readonly limit: number;
}

export interface StoreEntry {
  readonly key: StoreKey;
  readonly record: StoredRecord;
}

export interface Store {
  /** The value is the caller's: a large one may be in memory of its own, which the caller may move or give back. */
  get(key: StoreKey): StoredRecord | null;
  /** Returns at most `limit` entries, so that no read transaction stays open between pages. */
  page(range: StoreRange): StoreEntry[];
  /**
   * Makes all changes or none, in one transaction. Resolves when `get` sees the result. Until then a
   * value in resizable memory, which is for large ones, must not change: it is not copied.
   * @returns false when an `expected` version did not hold; then nothing was written.
   */
  commit(changes: readonly StoreChange[]): Promise<boolean>;
  /** Resolves when every commit resolved so far would survive a power cut. */
  flushed(): Promise<void>;
  close(): Promise<void>;
}

/** Both stores check it before they read a key. */
export function assertCommitSize(changes: readonly StoreChange[]): void {
  assert(
    changes.length <= limits.storeChangesMax,
    `a commit has ${changes.length} changes, at most ${limits.storeChangesMax} are allowed`,
  );
}

export function assertPageLimit(limit: number): void {
  assert(
    Number.isInteger(limit) && limit >= 0 && limit <= limits.storePageMax,
    `a page limit of ${limit} is not in 0…${limits.storePageMax}`,
  );
}
