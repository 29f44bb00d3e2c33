/**
 * Owns the memory of encoded fragments: bounded by bytes, the least recently used are evicted first.
 * It must never keep a long text itself, nor a slice that keeps a whole prompt in memory.
 */
import { createHash } from 'node:crypto';

/** Up to this length a text is its own key, which is faster than hashing it. */
export const KEY_TEXT_LENGTH_MAX = 512;
/**
 * The overhead of a map entry, the header of its key and an array with its own memory. With 100 000 short texts the
 * process grew by 1.5 KB each.
 */
const ENTRY_BYTES = 1_200;

/**
 * Two maps: a used entry moves to the young map; when that fills half of the budget, the old map is dropped.
 * A hit in the young map writes nothing, so a known prompt costs only look-ups.
 */
export class TokenMemory {
  #young = new Map<string, Uint32Array>();
  #old: ReadonlyMap<string, Uint32Array> = new Map();
  #youngBytes = 0;
  #oldBytes = 0;

  constructor(readonly bytesMax: number) {}

  /** Scope and text together make a new flat string, which keeps no slice of the prompt. */
  keyOf(scope: string, text: string): string {
    if (text.length <= KEY_TEXT_LENGTH_MAX) return `${scope}=${text}`;
    return this.keyOfLong(scope, createHash('sha256').update(text).digest('base64'));
  }

  /** @param digest SHA-256 of a text that is too long to be its own key, in base64. */
  keyOfLong(scope: string, digest: string): string {
    return `${scope}#${digest}`;
  }

  get(key: string): Uint32Array | undefined {
    const young = this.#young.get(key);
    if (young !== undefined) return young;
    const old = this.#old.get(key);
    if (old !== undefined) this.set(key, old);
    return old;
  }

  set(key: string, ids: Uint32Array): void {
    const bytes = costOf(key, ids);
    if (bytes > this.bytesMax / 2 || this.#young.has(key)) return;
    if (this.#youngBytes + bytes > this.bytesMax / 2) this.#age();
    this.#young.set(key, ids);
    this.#youngBytes += bytes;
  }

  get bytes(): number {
    return this.#youngBytes + this.#oldBytes;
  }

  #age(): void {
    this.#old = this.#young;
    this.#oldBytes = this.#youngBytes;
    this.#young = new Map();
    this.#youngBytes = 0;
  }
}

function costOf(key: string, ids: Uint32Array): number {
  return ids.byteLength + key.length * 2 + ENTRY_BYTES;
}
