/**
 * Owns the inputs of a request for vectors while somebody reads them: as they are, or packed where they are large.
 * It must never make more texts of packed bytes than are asked for.
 */
import { freeMemory } from '../pool/memory.js';
import type { PackedText } from '../pool/messages.js';
import { memoryOf, textOf } from '../pool/packed-text.js';
import type { VectorInput } from '../protocol/embeddings.js';
import { packedTexts } from './packing.js';

/** As it crosses. */
export type PackedInput = PackedText | readonly number[];

export interface VectorInputs {
  readonly length: number;
  /** What they take in memory. */
  readonly heldBytes: number;
  at(index: number): VectorInput;
  /** Nobody will read them any more. */
  free(): void;
}

export class NearInputs implements VectorInputs {
  constructor(
    readonly inputs: readonly VectorInput[],
    readonly heldBytes: number,
  ) {}

  get length(): number {
    return this.inputs.length;
  }

  at(index: number): VectorInput {
    return this.inputs[index] ?? '';
  }

  free(): void {}
}

/** Bytes of an id of a list. */
const ID_BYTES = 8;

export class FarInputs implements VectorInputs {
  readonly heldBytes: number;

  constructor(readonly inputs: readonly PackedInput[]) {
    this.heldBytes = inputs.reduce(
      (sum, each) => sum + ('memory' in each ? (each.isWide ? 2 : 1) : ID_BYTES) * each.length,
      0,
    );
  }

  get length(): number {
    return this.inputs.length;
  }

  at(index: number): VectorInput {
    const input = this.inputs[index] ?? [];
    return 'memory' in input ? textOf(input) : input;
  }

  free(): void {
    for (const memory of memoryOf(this.inputs.filter((each) => 'memory' in each))) {
      freeMemory(memory);
    }
  }
}

export function packedInputs(inputs: readonly VectorInput[]): readonly PackedInput[] {
  const texts = inputs.filter((input) => typeof input === 'string');
  const packed = packedTexts(texts);
  let next = 0;
  return inputs.map((input) => (typeof input === 'string' ? (packed[next++] ?? []) : input));
}
