/**
 * Owns the way of a blob from one place to another: every byte is checked before it counts, and read again afterwards.
 * It must never change the place it copies from.
 */
import type { FileHandle } from 'node:fs/promises';
import { codeOf } from '../errors.js';
import { limits } from '../limits/index.js';
import { type Blobs, type BlobWriter, DamagedBlob, isMissing, type KnownBlob } from './blobs.js';

/** What became of one blob. `present`: it was there already, whole. */
export type Brought = 'copied' | 'present' | 'missing' | 'damaged';

export interface NamedBlob extends KnownBlob {
  readonly name: string;
}

/** What the system refuses to read, while all others may be sound: rights, a link, a folder, a bad block. */
const REFUSALS: ReadonlySet<string> = new Set(['EACCES', 'EIO', 'EISDIR', 'ELOOP', 'EPERM']);

export class UnreadableBlob extends Error {
  override readonly name = 'UnreadableBlob';

  constructor(readonly code: string) {
    super(`the blob cannot be read (${code})`);
  }
}

/**
 * What is at the other place already is only read.
 * @throws ApiError `unavailable`; UnreadableBlob; Error for a copy that is not the original.
 */
export async function bring(from: Blobs, to: Blobs, blob: NamedBlob): Promise<Brought> {
  const { name } = blob;
  const there = await reading(() => to.state(name, blob));
  if (there === 'whole') return 'present';
  let file: FileHandle;
  try {
    file = await reading(() => from.readWhole(name, blob));
  } catch (cause) {
    if (cause instanceof DamagedBlob) return 'damaged';
    if (isMissing(cause)) return 'missing';
    throw cause;
  }
  try {
    // Other bytes than the record knows, and here are the right ones.
    if (there === 'damaged') await to.remove(name);
    const writer = await to.create(name);
    const { bytes, crc32 } = await poured(file, writer, name);
    const isOriginal = blob.crc32 === undefined || blob.crc32 === crc32;
    const copy = isOriginal ? await to.state(name, { bytes, crc32 }) : 'damaged';
    if (copy === 'missing') throw new Error(`the copy of ${name} is not there once it is written`);
    if (copy === 'damaged') throw new Error(`the copy of ${name} differs from the original`);
  } finally {
    await file.close();
  }
  return 'copied';
}

/** Writes all of a file, from its beginning. Where that fails, nothing is left. */
export async function poured(file: FileHandle, writer: BlobWriter, name: string) {
  try {
    for (let at = 0; ; ) {
      // The writer keeps what it is given until it is written.
      const piece = Buffer.allocUnsafe(limits.uploadWriteBytes);
      const { bytesRead } = await reading(() => file.read(piece, 0, piece.length, at));
      if (bytesRead === 0) break;
      await writer.write(piece.subarray(0, bytesRead));
      at += bytesRead;
    }
    return await writer.keep(name);
  } catch (cause) {
    await writer.discard();
    throw cause;
  }
}

export function unreadableText(name: string, { code }: UnreadableBlob): string {
  return `${name} cannot be read (${code})`;
}

/** @throws UnreadableBlob where the system refuses; all else as it comes. */
export async function reading<Result>(act: () => Promise<Result>): Promise<Result> {
  try {
    return await act();
  } catch (cause) {
    const code = codeOf(cause) ?? '';
    throw REFUSALS.has(code) ? new UnreadableBlob(code) : cause;
  }
}
