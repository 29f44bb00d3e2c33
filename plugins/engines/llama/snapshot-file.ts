/**
 * Owns the form of a snapshot's file: the state as the addon wrote it, then what it is of, sealed with checksums.
 * It must never trust a byte it has not checked: a wrong state can end the process that loads it.
 */
import { createHash, webcrypto } from 'node:crypto';
import { type FileHandle, open } from 'node:fs/promises';
import { limits } from 'preface/plugin';

export interface SnapshotFacts {
  readonly name: string;
  readonly fingerprint: string;
  /** Hash of the owner. */
  readonly owner: string;
  readonly tokens: number;
  /** Hash of the ids. */
  readonly ids: string;
}

export interface SnapshotHeader extends SnapshotFacts {
  readonly stateBytes: number;
  readonly stateDigest: string;
}

/** Behind the state: the header as JSON, its SHA-256, its length, and these bytes. */
const MAGIC = Buffer.from('preface1');
const HASH_BYTES = 32;
const FOOT_BYTES = HASH_BYTES + 4 + MAGIC.length;
/** Longest header: every field has its bound. */
const TAIL_BYTES = 2_048;

export function hashOf(data: string | Uint8Array): string {
  return createHash('sha256').update(data).digest('hex');
}

export function idsHash(ids: Uint32Array): string {
  return hashOf(new Uint8Array(ids.buffer, ids.byteOffset, ids.byteLength));
}

/** Completes a file that holds the state alone, down to the disk. @returns the bytes of the whole file. */
export async function sealFile(path: string, facts: SnapshotFacts): Promise<number> {
  const file = await open(path, 'r+');
  try {
    const { size: stateBytes } = await file.stat();
    const stateDigest = await digest(file, stateBytes, 1);
    const { name, fingerprint, owner, tokens, ids } = facts;
    const header = { name, fingerprint, owner, tokens, ids, stateBytes, stateDigest };
    const tail = tailOf(header);
    await file.write(tail, 0, tail.length, stateBytes);
    await file.sync();
    return stateBytes + tail.length;
  } finally {
    await file.close();
  }
}

function tailOf(header: SnapshotHeader): Buffer {
  const json = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(4);
  length.writeUInt32LE(json.length);
  return Buffer.concat([json, createHash('sha256').update(json).digest(), length, MAGIC]);
}

/** Null for a file that is missing, cut, or was never completed. Reads its last bytes only. */
export async function readHeader(path: string): Promise<SnapshotHeader | null> {
  const file = await open(path).catch(() => null);
  if (!file) return null;
  try {
    const { size } = await file.stat();
    const length = Math.min(size, TAIL_BYTES);
    const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, size - length);
    const header = headerOf(buffer.subarray(0, bytesRead));
    return header && header.stateBytes + tailOf(header).length === size ? header : null;
  } catch {
    return null;
  } finally {
    await file.close();
  }
}

function headerOf(tail: Buffer): SnapshotHeader | null {
  const end = tail.length - FOOT_BYTES;
  if (end < 0 || !tail.subarray(-MAGIC.length).equals(MAGIC)) return null;
  const start = end - tail.readUInt32LE(end + HASH_BYTES);
  if (start < 0) return null;
  const json = tail.subarray(start, end);
  const hash = createHash('sha256').update(json).digest();
  if (!hash.equals(tail.subarray(end, end + HASH_BYTES))) return null;
  return JSON.parse(json.toString()) as SnapshotHeader;
}

/** Whether the state is the very bytes that were written. */
export async function stateIntact(path: string, header: SnapshotHeader): Promise<boolean> {
  const file = await open(path).catch(() => null);
  if (!file) return false;
  try {
    const parallel = limits.snapshotHashParallel;
    return (await digest(file, header.stateBytes, parallel)) === header.stateDigest;
  } catch {
    return false;
  } finally {
    await file.close();
  }
}

/** @returns the bytes of a sealed file. @throws DamagedSnapshot where its state, or what it is of, is not what it should be. */
export async function intactSize(path: string, facts: SnapshotFacts): Promise<number> {
  const header = await readHeader(path);
  const isIt = header !== null && sameFacts(header, facts);
  if (!isIt || !(await stateIntact(path, header))) throw new DamagedSnapshot(facts.name);
  return header.stateBytes + tailOf(header).length;
}

export class DamagedSnapshot extends Error {
  override readonly name = 'DamagedSnapshot';

  constructor(snapshot: string) {
    super(`what was brought as the snapshot ${snapshot} is damaged, or something else`);
  }
}

export function sameFacts(a: SnapshotFacts, b: SnapshotFacts): boolean {
  const same = a.name === b.name && a.fingerprint === b.fingerprint && a.owner === b.owner;
  return same && a.tokens === b.tokens && a.ids === b.ids;
}

/** The state as the library wrote it, in memory; null where it is not the very bytes that were written. */
export async function readState(path: string, header: SnapshotHeader): Promise<Buffer | null> {
  const file = await open(path).catch(() => null);
  if (!file) return null;
  try {
    const state = Buffer.allocUnsafeSlow(header.stateBytes);
    const read = async (into: Buffer, at: number) => {
      const piece = state.subarray(at, at + into.length);
      const { bytesRead } = await file.read(piece, 0, piece.length, at);
      piece.copy(into);
      return bytesRead;
    };
    const found = await digestOf(read, header.stateBytes, limits.snapshotHashParallel);
    return found === header.stateDigest ? state : null;
  } catch {
    return null;
  } finally {
    await file.close();
  }
}

/**
 * SHA-256 of the SHA-256 of each piece. Pieces are hashed on other threads, so that streams go on meanwhile;
 * few at a time, since the addon evaluates on the same threads.
 */
function digest(file: FileHandle, bytes: number, parallel: number): Promise<string> {
  const read = async (into: Buffer, at: number) =>
    (await file.read(into, 0, into.length, at)).bytesRead;
  return digestOf(read, bytes, parallel);
}

async function digestOf(
  read: (into: Buffer, at: number) => Promise<number>,
  bytes: number,
  parallel: number,
): Promise<string> {
  const size = limits.snapshotHashBytes;
  const pieces: Buffer[] = new Array(Math.ceil(bytes / size));
  let next = 0;
  const run = async () => {
    const buffer = Buffer.alloc(size);
    for (let i = next++; i < pieces.length; i = next++) {
      const length = Math.min(size, bytes - i * size);
      const bytesRead = await read(buffer.subarray(0, length), i * size);
      if (bytesRead !== length) throw new Error('the file is shorter than its header says');
      const hash = await webcrypto.subtle.digest('SHA-256', buffer.subarray(0, length));
      pieces[i] = Buffer.from(hash);
    }
  };
  await Promise.all(Array.from({ length: parallel }, run));
  return hashOf(Buffer.concat(pieces));
}
