/**
 * Owns the bound of the bytes that records may take in an LMDB file.
 * It must never refuse a commit that removes something: that makes room.
 */
import { ApiError } from '../errors.js';
import { limits } from '../limits/index.js';
import { type Database, usedBytes } from './lmdb-open.js';
import type { Step } from './steps.js';

/** In the worst case a record needs a page of its own, and pages are half full. */
const RECORD_BYTES_MIN = 4_096;
const FILL_MIN = 0.5;

/**
 * LMDB reports no bound of its map: the map grows with the file until the address space or the disk is used up, and
 * without address space the process ends.
 */
export class RecordRoom {
  /** Bytes that may be written before the used bytes are read again, which costs a few reads. */
  #bytes = 0;

  constructor(
    readonly db: Database,
    readonly bytesMax: number,
  ) {}

  /** @throws ApiError `unavailable`. */
  take(steps: readonly Step[]): void {
    let bytes = 0;
    for (const { key, value } of steps) {
      if (value === null) return;
      bytes += Math.max(RECORD_BYTES_MIN, (key.length + value.length) / FILL_MIN);
    }
    // Running commits are not counted yet: the bound may be exceeded by them, once.
    if (this.#bytes < bytes) this.#bytes = this.bytesMax - usedBytes(this.db);
    if (this.#bytes < bytes) throw full(this.bytesMax);
    this.#bytes -= bytes;
  }
}

function full(bytesMax: number): ApiError {
  const error = `its records have reached their bound of ${bytesMax} bytes`;
  return new ApiError('unavailable', { error }, { retryAfterMs: limits.storeRetryMs });
}
