/**
 * Owns the memory of encoded fragments: what was not used lately goes first, bounded by bytes.
 * It must never keep a long text itself, nor a slice that keeps a whole prompt alive.
 */
import { createHash } from 'node:crypto';

/** Up to here the text is its own key, which is quicker than hashing it. */
const KEY_TEXT_LENGTH_MAX = 512;
/**
 * What a map entry, its key's header and an array with memory of its own cost beside their contents: measured over
 * 100 000 short texts, whose process grew by 1.5 KB each.
 */
const ENTRY_BYTES = 1_200;

/**
 * Two generations: what is used moves to the young one; when that is half the budget, the old one is dropped.
 * A hit in the young one writes nothing, which is what a known prompt costs.
 */
export class TokenMemory {
  #young = new Map<string, Uint32Array>();
  #old: ReadonlyMap<string, Uint32Array> = new Map();
  #youngBytes = 0;
  #oldBytes = 0;

  constructor(readonly bytesMax: number) {}

  /** Scope and text together make a new flat string, so a slice of a prompt does not survive in it. */
  keyOf(scope: string, text: string): string {
    if (text.length <= KEY_TEXT_LENGTH_MAX) return `${scope}=${text}`;
    return `${scope}#${createHash('sha256').update(text).digest('base64')}`;
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
