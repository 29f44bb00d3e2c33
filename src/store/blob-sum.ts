/**
 * Owns what is summed up while the bytes of a blob go by, and whether they are those that its record knows.
 * It must never keep a byte.
 */
import { crc32 } from '../crc32.js';
import type { KnownBlob } from './blobs.js';
import { ContentSample } from './content-sample.js';

export class BlobSum {
  readonly #known: KnownBlob | null;
  /** Only for records from before there were checksums. */
  readonly #sample: ContentSample | null;
  #bytes = 0;
  #crc32 = 0;

  /** @param known null: any bytes. */
  constructor(known: KnownBlob | null) {
    this.#known = known;
    this.#sample = known?.crc32 === undefined && known?.sample ? new ContentSample() : null;
  }

  get bytes(): number {
    return this.#bytes;
  }

  update(piece: Buffer): void {
    this.#bytes += piece.length;
    if (this.#known?.crc32 !== undefined) this.#crc32 = crc32(piece, this.#crc32);
    this.#sample?.update(piece);
  }

  agrees(): boolean {
    if (this.#known === null) return true;
    const { bytes, crc32: sum, sample } = this.#known;
    const isSame = sum === undefined || sum === this.#crc32;
    return bytes === this.#bytes && isSame && (this.#sample?.digest() ?? sample) === sample;
  }
}
