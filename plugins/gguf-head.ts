/**
 * Owns the reading of the settings at the head of a GGUF file: hundreds of thousands of texts, byte for byte.
 * It must never believe a count or a length that the file has no bytes for.
 *
 * The library that reads tensors drops a byte order mark at the beginning of a text, and vocabularies have tokens that
 * differ by it alone; and it takes seconds for a large vocabulary.
 */
import { open } from 'node:fs/promises';

export type GgufMetadata = Readonly<Record<string, unknown>>;

/** Most heads are shorter; of a longer one twice as much is read each time. */
const FIRST_BYTES = 8 * 1024 * 1024;

export async function readGgufHead(path: string): Promise<GgufMetadata> {
  const file = await open(path);
  try {
    const { size } = await file.stat();
    for (let wanted = FIRST_BYTES; ; wanted *= 2) {
      const memory = Buffer.alloc(Math.min(wanted, size));
      const { buffer, bytesRead } = await file.read(memory, 0, memory.length, 0);
      const head = new Head(buffer.subarray(0, bytesRead), size);
      try {
        return head.settings();
      } catch (cause) {
        if (cause !== MORE || bytesRead < wanted) throw cause === MORE ? damaged() : cause;
      }
    }
  } finally {
    await file.close();
  }
}

/** Thrown where the bytes end and the file does not. */
const MORE = new Error('the head goes on');

function damaged(): Error {
  return new Error('its header is not that of a GGUF');
}

const STRING = 8;
const ARRAY = 9;

class Head {
  #at = 0;
  readonly #view: DataView;

  constructor(
    readonly bytes: Buffer,
    /** Of the whole file. */
    readonly size: number,
  ) {
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  settings(): GgufMetadata {
    if (this.bytes.toString('latin1', 0, 4) !== 'GGUF') throw damaged();
    this.#at = 4;
    const version = this.#view.getUint32(this.#take(4), true);
    if (version < 2 || version > 3) throw new Error(`its version is ${version}; 2 and 3 are read`);
    this.#take(8);
    const count = this.#count(1);
    const settings: Record<string, unknown> = {};
    for (let number = 0; number < count; number += 1) {
      const key = this.#text();
      settings[key] = this.#value(this.#view.getUint32(this.#take(4), true), 0);
    }
    return settings;
  }

  #value(type: number, depth: number): unknown {
    if (type === STRING) return this.#text();
    if (type === ARRAY) return this.#list(depth);
    const read = SCALARS[type];
    if (read === undefined) throw damaged();
    return read.from(this.#view, this.#take(read.bytes));
  }

  #list(depth: number): unknown[] {
    const type = this.#view.getUint32(this.#take(4), true);
    const count = this.#count(SCALARS[type]?.bytes ?? 8);
    // No setting is a list of lists of lists.
    if (depth > 1) throw damaged();
    return Array.from({ length: count }, () => this.#value(type, depth + 1));
  }

  #text(): string {
    const length = this.#count(1);
    const start = this.#take(length);
    return this.bytes.toString('utf8', start, start + length);
  }

  /** Of things with so many bytes each at least. */
  #count(bytesMin: number): number {
    const count = Number(this.#view.getBigUint64(this.#take(8), true));
    if (count * bytesMin > this.size - this.#at) throw damaged();
    return count;
  }

  /** @returns where they begin. */
  #take(bytes: number): number {
    const at = this.#at;
    if (at + bytes > this.bytes.length) throw MORE;
    this.#at += bytes;
    return at;
  }
}

interface Scalar {
  readonly bytes: number;
  from(view: DataView, at: number): unknown;
}

/** By their types' numbers. A whole number of 64 bits stays exact. */
const SCALARS: Readonly<Record<number, Scalar>> = {
  0: { bytes: 1, from: (view, at) => view.getUint8(at) },
  1: { bytes: 1, from: (view, at) => view.getInt8(at) },
  2: { bytes: 2, from: (view, at) => view.getUint16(at, true) },
  3: { bytes: 2, from: (view, at) => view.getInt16(at, true) },
  4: { bytes: 4, from: (view, at) => view.getUint32(at, true) },
  5: { bytes: 4, from: (view, at) => view.getInt32(at, true) },
  6: { bytes: 4, from: (view, at) => view.getFloat32(at, true) },
  7: { bytes: 1, from: (view, at) => view.getUint8(at) !== 0 },
  10: { bytes: 8, from: (view, at) => view.getBigUint64(at, true) },
  11: { bytes: 8, from: (view, at) => view.getBigInt64(at, true) },
  12: { bytes: 8, from: (view, at) => view.getFloat64(at, true) },
};
