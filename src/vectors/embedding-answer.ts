/**
 * Owns the answer to a request for embeddings: its vectors as they come, and the body made of them.
 * It must never keep a vector but as the text that leaves.
 */
import type { VectorModel } from '../chat/catalog.js';
import type { JsonPieces } from '../protocol/completion.js';
import { type EmbeddingSettings, embeddingList, wireEmbedding } from '../protocol/embeddings.js';
import { finishedVector } from '../rules/vectors.js';

export class EmbeddingAnswer {
  readonly #items: Uint8Array[] = [];

  /** @param hold is told of the bytes of each item. What it throws ends the run. */
  constructor(
    readonly settings: EmbeddingSettings,
    readonly hold: (bytes: number) => void,
  ) {}

  /** Of the next inputs, in order. */
  take(vectors: readonly Float32Array[], { facts }: VectorModel): void {
    const { dimensions, asBase64 } = this.settings;
    for (const each of vectors) {
      // An upstream was asked for the dimensions, and its vectors are as it makes them.
      const vector = facts.takesTexts ? each : finishedVector(each, dimensions);
      const comma = this.#items.length === 0 ? '' : ',';
      const item = Buffer.from(comma + wireEmbedding(vector, this.#items.length, asBase64));
      this.hold(item.byteLength);
      this.#items.push(item);
    }
  }

  body(tokens: number): JsonPieces {
    return embeddingList(this.settings.model, this.#items, tokens);
  }
}
