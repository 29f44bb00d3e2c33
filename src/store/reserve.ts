/**
 * Owns room on the disk for what must always work: a file that holds it, and is given up bit by bit when the disk is full.
 * It must never be given up for what adds something: only for commits that take something away, and for a start.
 */
import { closeSync, existsSync, ftruncateSync, openSync, statSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { limits } from '../limits/index.js';
import { PRIVATE_MODE } from './private-files.js';

const NAME = 'reserve';
const { reserveBytes, reserveStepBytes, storeRetryMs } = limits;

/** By folder: the stores of one folder share it. */
const known = new Map<string, Reserve>();

export class Reserve {
  readonly #path: string;
  /** Some of it was given up, or there was no room for it: what adds something waits until it is whole again. */
  low = false;
  #refillDueMs = 0;

  static of(folder: string): Reserve {
    const found = known.get(folder) ?? new Reserve(folder);
    known.set(folder, found);
    return found;
  }

  private constructor(folder: string) {
    this.#path = join(folder, NAME);
  }

  /** @returns false where the disk has no room for all of it; then it holds what there was. */
  fill(): boolean {
    const missing = reserveBytes - this.bytes;
    this.low = missing > 0 && !this.#write(missing);
    return !this.low;
  }

  /** Tries to fill it, but not at every call: what adds something asks this first. */
  isWhole(): boolean {
    if (!this.low) return true;
    const nowMs = performance.now();
    if (nowMs < this.#refillDueMs) return false;
    this.#refillDueMs = nowMs + storeRetryMs;
    return this.fill();
  }

  #write(missing: number): boolean {
    let file: number | null = null;
    try {
      file = openSync(this.#path, 'a', PRIVATE_MODE.file);
      // Written, not only made longer: a file with holes holds no room.
      const zeros = Buffer.alloc(reserveStepBytes);
      for (let left = missing; left > 0; ) {
        left -= writeSync(file, zeros, 0, Math.min(left, zeros.length));
      }
      return true;
    } catch {
      return false;
    } finally {
      if (file !== null) closeSync(file);
    }
  }

  /** @returns false where there is nothing left. */
  giveUpSome(): boolean {
    const { bytes } = this;
    if (bytes === 0) return false;
    this.low = true;
    const file = openSync(this.#path, 'r+');
    try {
      ftruncateSync(file, Math.max(0, bytes - reserveStepBytes));
    } finally {
      closeSync(file);
    }
    return true;
  }

  get bytes(): number {
    return existsSync(this.#path) ? statSync(this.#path).size : 0;
  }
}
