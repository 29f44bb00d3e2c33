/**
 * Owns what one line of a batch takes of its account's memory while it runs.
 * It must never take the room that the account's next request needs.
 */
import { ApiError, invalid } from '../errors.js';
import { limits } from '../limits/index.js';
import { accountOf } from '../rules/account-policy.js';

/** What all requests hold, and those of each account. */
export interface Memory {
  /** Of one account. */
  readonly ownerBytesMax: number;
  hasRoom(account: string, bytes: number): boolean;
  /** @param bytes fewer than 0 are given back. */
  take(account: string, bytes: number): void;
}

export class HeldBytes {
  readonly #account: string;
  #bytes = 0;
  #refusal: ApiError | null = null;

  /** @param owner whose account it is: a person of it takes of the same memory. */
  constructor(
    readonly memory: Memory,
    owner: string,
  ) {
    this.#account = accountOf(owner);
  }

  /** @throws ApiError `overloaded`, or `invalidRequest` for what never has room. */
  set(bytes: number): void {
    const more = bytes - this.#bytes;
    if (more > 0) this.#assertRoom(bytes, more);
    this.#take(more);
  }

  #assertRoom(bytes: number, more: number): void {
    const { memory } = this;
    const alone = memory.ownerBytesMax - limits.bodyBytesMax;
    if (bytes > alone) this.#refuse(tooLarge(alone));
    if (!memory.hasRoom(this.#account, more + limits.bodyBytesMax)) {
      this.#refuse(new ApiError('overloaded', {}, { retryAfterMs: limits.bodyRetryMs }));
    }
  }

  #refuse(error: ApiError): never {
    this.#refusal = error;
    throw error;
  }

  /** @throws ApiError the same. */
  add(bytes: number): void {
    this.set(this.#bytes + bytes);
  }

  /** @returns what was refused here and ended the run; null where it ended well. @throws what else ended it. */
  async refusalOf(run: Promise<unknown>): Promise<ApiError | null> {
    try {
      await run;
      return null;
    } catch (cause) {
      if (this.#refusal === null || cause !== this.#refusal) throw cause;
      return this.#refusal;
    }
  }

  giveBack(): void {
    this.#take(-this.#bytes);
  }

  #take(bytes: number): void {
    this.memory.take(this.#account, bytes);
    this.#bytes += bytes;
  }
}

function tooLarge(bytesMax: number): ApiError {
  return invalid(`the line and its answer would take more than ${bytesMax} bytes of memory`);
}
