/**
 * Owns the contract of the place for the bytes of files: generated names, whole blobs or none, bytes as they were written.
 * It must never depend on where the bytes are.
 */
import type { FileHandle } from 'node:fs/promises';
import { codeOf } from '../errors.js';
import type { TakeRoom } from '../room.js';

const NAME = /^[a-z0-9]{1,64}(\.[a-z]{1,16})?$/;
const KINDS = /^[a-z0-9]{1,64}\.(?:source|text|notes)$/;

export interface KeptBlob {
  readonly bytes: number;
  /** See `ContentSample`. */
  readonly sample: string;
  /** Of all bytes. */
  readonly crc32: number;
}

/** What is known of a blob's bytes; without `crc32` in records from before there were checksums. */
export interface KnownBlob {
  readonly bytes: number;
  readonly crc32?: number | undefined;
  /** Looked at where there is no checksum. */
  readonly sample?: string | undefined;
}

/** `damaged`: it has other bytes than it was written with. */
export type BlobState = 'whole' | 'missing' | 'damaged';

/** Every method throws ApiError `unavailable` while the place cannot be reached or is full. */
export interface Blobs {
  /** For every write of bytes into the data folder. */
  readonly withRoom: TakeRoom;

  create(name: string): Promise<BlobWriter>;

  /** The path on the disk at which a blob is written before it is adopted. */
  partPath(name: string): string;

  /** Makes the file at `partPath` the blob. Resolves when it would survive a power cut; then the file is gone. */
  adopt(name: string): Promise<void>;

  /** Gives the bytes a second name; each name is removed separately. @returns false where there is no blob `from`. */
  share(from: string, to: string): Promise<boolean>;

  /** Compares byte by byte. False where one of the two is missing. @throws the signal's reason. */
  same(one: string, other: string, signal: AbortSignal): Promise<boolean>;

  /** For reading only. Stays readable when the blob is removed. @throws Error of code `ENOENT` for one that is missing. */
  read(name: string): Promise<FileHandle>;

  /** As `read`. @throws DamagedBlob where it has other bytes than it was written with. */
  readWhole(name: string, known: KnownBlob): Promise<FileHandle>;

  /** Reads all of it. */
  state(name: string, known: KnownBlob): Promise<BlobState>;

  /** Removes the blob and its part file, where they exist. */
  remove(name: string): Promise<void>;

  /** Of all blobs. */
  names(): AsyncGenerator<string>;
}

/** One blob on its way. Either `keep` or `discard` ends it. */
export interface BlobWriter {
  readonly bytes: number;

  /** One call at a time: waiting for the promise is the back-pressure. @throws ApiError `unavailable`, `overloaded`. */
  write(piece: Buffer): Promise<void>;

  /** Under that name. Resolves when the blob would survive a power cut. @throws ApiError `unavailable`; then nothing is left. */
  keep(name: string): Promise<KeptBlob>;

  /** Removes the bytes, unless the blob was kept. */
  discard(): Promise<void>;
}

/** Whether a blob is not there, wherever the blobs are. */
export function isMissing(cause: unknown): boolean {
  return codeOf(cause) === 'ENOENT';
}

/** Somebody changed the bytes of a blob, or its place did. The message names none: it may reach a client. */
export class DamagedBlob extends Error {
  override readonly name = 'DamagedBlob';

  constructor() {
    super('a stored text is damaged: delete its file, then upload it again');
  }
}

/** @throws Error for what is no generated name. */
export function blobName(name: string): string {
  if (NAME.test(name)) return name;
  throw new Error(`a blob cannot be called ${JSON.stringify(name)}`);
}

/** Whether it is called as a blob of a file is: a bucket may hold what others keep there, too. */
export function isBlob(name: string): boolean {
  return KINDS.test(name);
}
