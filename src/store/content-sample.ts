/**
 * Owns the two ways to tell files apart: a hash of some of their bytes, and the comparison of all of them.
 * It must never call two files equal because their hashes are equal.
 */
import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { isMissing } from './blobs.js';

const KIB = 1024;
/** Every byte up to here is hashed: most documents are shorter, and documents of one program begin alike. */
const HEAD_BYTES = 128 * KIB;
/** Beyond it only the beginning of each stretch is hashed: a large file costs a hundredth of a full hash. */
const STRETCH_BYTES = 64 * KIB;
const SAMPLE_BYTES = KIB;
const COMPARED_BYTES = 256 * KIB;

/** Equal bytes have equal samples, in whatever pieces they come. Other bytes seldom have the same sample. */
export class ContentSample {
  readonly #hash = createHash('sha256');
  #bytes = 0;

  update(piece: Buffer): void {
    const from = this.#bytes;
    const to = from + piece.length;
    this.#bytes = to;
    this.#take(piece, 0, Math.min(to, HEAD_BYTES) - from);
    let stretch = Math.max(HEAD_BYTES, from - (from % STRETCH_BYTES));
    for (; stretch < to; stretch += STRETCH_BYTES) {
      this.#take(piece, stretch - from, Math.min(to, stretch + SAMPLE_BYTES) - from);
    }
  }

  #take(piece: Buffer, start: number, end: number): void {
    if (end > Math.max(0, start)) this.#hash.update(piece.subarray(Math.max(0, start), end));
  }

  /** SHA-256, hexadecimal. */
  digest(): string {
    return this.#hash.digest('hex');
  }
}

/** Compares byte by byte, in two buffers. False where one of the files does not exist. @throws the signal's reason. */
export async function sameContent(
  one: string,
  other: string,
  signal: AbortSignal,
): Promise<boolean> {
  const handles: FileHandle[] = [];
  try {
    for (const path of [one, other]) {
      handles.push(await open(path, constants.O_RDONLY | constants.O_NOFOLLOW));
    }
    const [first, second] = handles as [FileHandle, FileHandle];
    return await sameBytes(first, second, signal);
  } catch (cause) {
    if (isMissing(cause)) return false;
    throw cause;
  } finally {
    for (const handle of handles) await handle.close();
  }
}

/** Of two open files. @throws the signal's reason. */
export async function sameBytes(
  one: FileHandle,
  other: FileHandle,
  signal: AbortSignal,
): Promise<boolean> {
  const left = Buffer.allocUnsafe(COMPARED_BYTES);
  const right = Buffer.allocUnsafe(COMPARED_BYTES);
  for (let at = 0; ; at += COMPARED_BYTES) {
    signal.throwIfAborted();
    const [a, b] = await Promise.all([filled(one, left, at), filled(other, right, at)]);
    if (!a.equals(b)) return false;
    if (a.length < COMPARED_BYTES) return true;
  }
}

/** Fills the buffer unless the file ends: a single read may return less than there is. */
async function filled(handle: FileHandle, buffer: Buffer, at: number): Promise<Buffer> {
  let bytes = 0;
  while (bytes < buffer.length) {
    const { bytesRead } = await handle.read(buffer, bytes, buffer.length - bytes, at + bytes);
    if (bytesRead === 0) break;
    bytes += bytesRead;
  }
  return buffer.subarray(0, bytes);
}
