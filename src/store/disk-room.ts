/**
 * Owns the room on the disk that uploads and texts may take: what is free, while nothing of the reserve is given up.
 * It must never let a write begin for which there is no room: it would take what the reserve gives up meanwhile.
 */
import { statfsSync } from 'node:fs';
import { ApiError } from '../errors.js';
import { limits } from '../limits/index.js';
import type { Reserve } from './reserve.js';

export class DiskRoom {
  /** Of writes that have begun, and may not be on the disk yet. */
  #claimedBytes = 0;

  constructor(
    readonly folder: string,
    readonly reserve: Pick<Reserve, 'isWhole'>,
    readonly freeBytes: (folder: string) => number = freeBytesOf,
  ) {}

  /** @throws ApiError `unavailable` before the write begins; what the write throws. */
  async write(bytes: number, write: () => Promise<void>): Promise<void> {
    if (!this.reserve.isWhole() || this.freeBytes(this.folder) - this.#claimedBytes < bytes) {
      throw new ApiError('unavailable', { error: FULL }, { retryAfterMs: limits.storeRetryMs });
    }
    this.#claimedBytes += bytes;
    try {
      await write();
    } finally {
      this.#claimedBytes -= bytes;
    }
  }
}

function freeBytesOf(folder: string): number {
  const { bavail, bsize } = statfsSync(folder);
  return bavail * bsize;
}

const FULL = 'the disk of the data folder is full';
