/**
 * Owns the library's array of candidates: ids and logits in native memory, filled here and changed by samplers.
 * It must never be handed to a sampler while another call still has it.
 */
import { allocate, floatsAt, intsAt, type Pointer, release } from './libllama.js';

/** Bytes of `llama_token_data`: id, logit, probability. */
const CANDIDATE_BYTES = 12;
/** Bytes of `llama_token_data_array`: address, count, selected, sorted. */
const ARRAY_BYTES = 32;

/** The library's list of candidates, or a part of it that is at work. */
export class Candidates {
  readonly #data: Pointer;
  readonly #array: Pointer;
  readonly #ids: Int32Array;
  readonly #logits: Float32Array;
  readonly #fields: BigInt64Array;

  constructor(readonly size: number) {
    this.#data = allocate(size * CANDIDATE_BYTES);
    this.#array = allocate(ARRAY_BYTES);
    this.#ids = intsAt(this.#data, size * 3);
    this.#logits = floatsAt(this.#data, size * 3);
    this.#fields = new BigInt64Array(intsAt(this.#array, ARRAY_BYTES / 4).buffer);
  }

  fill(logits: Float32Array): void {
    const { size } = this;
    for (let id = 0, at = 0; id < size; id++, at += 3) {
      this.#ids[at] = id;
      this.#logits[at + 1] = logits[id] ?? 0;
    }
    this.#reset(size);
  }

  /** One token instead, whose logit tells afterwards whether it stays. */
  only(id: number): void {
    this.#ids[0] = id;
    this.#logits[1] = 1;
    this.#reset(1);
  }

  /** Whether the token at this place stayed. */
  allows(place: number): boolean {
    return this.#logits[place * 3 + 1] !== Number.NEGATIVE_INFINITY;
  }

  /** What the next sampler sees: so many from `from` on, or as many as there are. */
  select(from: number, count: number): void {
    this.#reset(Math.min(count, this.size - from), from);
  }

  get address(): Pointer {
    return this.#array;
  }

  /** What the last sampler selected; null for nothing, or for what a grammar does not allow. */
  selected(): number | null {
    const at = Number(this.#fields[2]) * 3;
    const count = Number(this.#fields[1]) * 3;
    if (at < 0 || at >= count) return null;
    return this.#logits[at + 1] === Number.NEGATIVE_INFINITY ? null : (this.#ids[at] ?? null);
  }

  #reset(count: number, from = 0): void {
    const fields = this.#fields;
    fields[0] = this.#data + BigInt(from * CANDIDATE_BYTES);
    fields[1] = BigInt(count);
    fields[2] = -1n;
    fields[3] = 0n;
  }

  free(): void {
    release(this.#data);
    release(this.#array);
  }
}
