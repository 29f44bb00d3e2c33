/**
 * Owns one blob on its way to an object store: a short one in one request, a long one in parts.
 * It must never hold more of it than one part, nor acknowledge bytes that the store has not confirmed.
 */
import { crc32 } from '../crc32.js';
import { limits } from '../limits/index.js';
import type { BlobWriter, KeptBlob } from './blobs.js';
import { ContentSample } from './content-sample.js';
import type { HeldBytes } from './held-bytes.js';
import type { S3 } from './s3.js';

export interface S3WriterParts {
  readonly s3: S3;
  /** Until it is kept: parts are put under it. */
  readonly name: string;
  /** Of all writers. */
  readonly held: HeldBytes;
  /** Whether it takes the place of an object, which others may write too; then nothing is removed. */
  readonly replaces?: boolean;
}

export class S3Writer implements BlobWriter {
  readonly #parts: S3WriterParts;
  readonly #sample = new ContentSample();
  #crc32 = 0;
  #bytes = 0;
  #gathered: Buffer[] = [];
  #gatheredBytes = 0;
  #giveBack: (() => void) | null = null;
  #upload: { readonly id: string; readonly tags: string[] } | null = null;
  /** What is in the store under a name that is no blob's yet. */
  #placed: string | null = null;

  constructor(parts: S3WriterParts) {
    this.#parts = parts;
  }

  get bytes(): number {
    return this.#bytes;
  }

  async write(piece: Buffer): Promise<void> {
    this.#bytes += piece.length;
    this.#sample.update(piece);
    this.#crc32 = crc32(piece, this.#crc32);
    this.#gathered.push(piece);
    this.#gatheredBytes += piece.length;
    // A short blob takes no more memory than one on its way to the disk.
    if (this.#gatheredBytes > limits.uploadWriteBytes) {
      this.#giveBack ??= this.#parts.held.take(limits.objectPartBytes);
    }
    while (this.#gatheredBytes >= limits.objectPartBytes) await this.#putPart();
  }

  async keep(name: string): Promise<KeptBlob> {
    try {
      if (this.#upload === null) await this.#create(name);
      else await this.#end(name);
    } catch (cause) {
      await this.discard();
      throw cause;
    }
    this.#placed = null;
    this.#release();
    return { bytes: this.#bytes, sample: this.#sample.digest(), crc32: this.#crc32 };
  }

  async discard(): Promise<void> {
    const { s3, name } = this.#parts;
    const [upload, placed] = [this.#upload, this.#placed];
    this.#upload = null;
    this.#placed = null;
    this.#release();
    // Where the store cannot be reached, the next start removes it.
    if (upload !== null) await s3.abortParts(name, upload.id).catch(nothing);
    if (placed !== null) await s3.remove(placed).catch(nothing);
  }

  async #create(name: string): Promise<void> {
    const { s3, replaces = false } = this.#parts;
    if (replaces) return await s3.put(name, Buffer.concat(this.#gathered));
    this.#placed = name;
    const isNew = await s3.create(name, Buffer.concat(this.#gathered));
    if (isNew) return;
    this.#placed = null;
    throw Object.assign(new Error(`there is an object ${name}`), { code: 'EEXIST' });
  }

  /** Parts belong to the name that the upload began with; its own name it gets by a copy inside the store. */
  async #end(name: string): Promise<void> {
    const { s3, name: temporary } = this.#parts;
    if (this.#gatheredBytes > 0) await this.#putPart();
    const { id, tags } = this.#begun();
    await s3.endParts(temporary, id, tags, this.#bytes);
    this.#upload = null;
    if (name === temporary) return;
    this.#placed = temporary;
    if (!(await s3.copy(temporary, name))) throw new Error('an upload was removed before its end');
    await s3.remove(temporary).catch(nothing);
  }

  async #putPart(): Promise<void> {
    const { s3, name } = this.#parts;
    const all = Buffer.concat(this.#gathered);
    this.#gathered = [];
    const part = all.subarray(0, limits.objectPartBytes);
    const rest = Buffer.from(all.subarray(part.length));
    if (rest.length > 0) this.#gathered.push(rest);
    this.#gatheredBytes = rest.length;
    this.#upload ??= { id: await s3.beginParts(name), tags: [] };
    const { id, tags } = this.#upload;
    tags.push(await s3.putPart(name, id, tags.length + 1, part));
  }

  #begun() {
    if (this.#upload === null) throw new Error('no part was put');
    return this.#upload;
  }

  #release(): void {
    this.#gathered = [];
    this.#gatheredBytes = 0;
    this.#giveBack?.();
    this.#giveBack = null;
  }
}

function nothing(): void {}
