/**
 * Owns reading a ZIP archive within bounds: all its directory says is checked before a byte is unpacked.
 * It must never unpack more than the directory declared, open an archive within, or touch a file system.
 */
import { crc32, inflateRawSync } from 'node:zlib';
import type { ExtractionBounds } from 'preface/plugin';
import { refusal } from './refusal.js';
import { readDirectory, type ZipEntry } from './zip-directory.js';

const STORED = 0;
const DEFLATED = 8;
const LOCAL_HEADER_BYTES = 30;
const LOCAL_SIGNATURE = 0x04034b50;

export class ZipArchive {
  readonly #bytes: Buffer;
  readonly #entries = new Map<string, ZipEntry>();

  /** @throws a refusal for a damaged directory. No bound is checked before `check`. */
  constructor(bytes: Uint8Array, entriesMax: number) {
    this.#bytes = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    for (const entry of readDirectory(this.#bytes, entriesMax)) {
      // When two entries have one name, the first counts.
      if (!this.#entries.has(entry.name)) this.#entries.set(entry.name, entry);
    }
  }

  /** @throws a refusal that names the bound the directory goes beyond. */
  check(bounds: ExtractionBounds): void {
    let unpacked = 0;
    let packed = 0;
    for (const entry of this.#entries.values()) {
      unpacked += entry.unpackedBytes;
      packed += entry.packedBytes;
    }
    if (unpacked > bounds.unpackedBytesMax) {
      throw bound(`its archive unpacks to more than ${bounds.unpackedBytesMax} bytes`);
    }
    if (unpacked > packed * bounds.unpackRatioMax) {
      throw bound(`its archive unpacks to more than ${bounds.unpackRatioMax} times its size`);
    }
    checkOverlap([...this.#entries.values()]);
  }

  get names(): IterableIterator<string> {
    return this.#entries.keys();
  }

  has(name: string): boolean {
    return this.#entries.has(name);
  }

  /** As the directory says; 0 for a part that is not there. */
  sizeOf(name: string): number {
    return this.#entries.get(name)?.unpackedBytes ?? 0;
  }

  /** @returns null for a part that is not there. */
  read(name: string): Buffer | null {
    const entry = this.#entries.get(name);
    return entry === undefined ? null : unpack(this.#bytes, entry);
  }
}

/** One packed byte may belong to one entry only: sharing them is how a small file unpacks to terabytes. */
function checkOverlap(entries: ZipEntry[]): void {
  entries.sort((a, b) => a.offset - b.offset);
  let end = 0;
  for (const entry of entries) {
    if (entry.offset < end) throw refusal('damaged', 'its archive is damaged: entries overlap');
    end = entry.offset + LOCAL_HEADER_BYTES + entry.packedBytes;
  }
}

function unpack(bytes: Buffer, entry: ZipEntry): Buffer {
  if (entry.encrypted) throw refusal('encrypted', 'its archive is protected with a password');
  const packed = packedBytes(bytes, entry);
  if (entry.method === STORED) return checked(packed, entry);
  if (entry.method !== DEFLATED) {
    throw refusal('unsupported', `its archive is packed by method ${entry.method}, not by deflate`);
  }
  return checked(inflate(packed, entry), entry);
}

function packedBytes(bytes: Buffer, { offset, packedBytes }: ZipEntry): Buffer {
  if (offset + LOCAL_HEADER_BYTES > bytes.length) throw damaged();
  if (bytes.readUInt32LE(offset) !== LOCAL_SIGNATURE) throw damaged();
  const start =
    offset + LOCAL_HEADER_BYTES + bytes.readUInt16LE(offset + 26) + bytes.readUInt16LE(offset + 28);
  if (start + packedBytes > bytes.length) throw damaged();
  return bytes.subarray(start, start + packedBytes);
}

function inflate(packed: Buffer, { unpackedBytes }: ZipEntry): Buffer {
  try {
    return inflateRawSync(packed, { maxOutputLength: Math.max(unpackedBytes, 1) });
  } catch (cause) {
    const tooLarge = (cause as { code?: unknown }).code === 'ERR_BUFFER_TOO_LARGE';
    throw tooLarge ? bound('an entry of its archive is larger than it says') : damaged();
  }
}

function checked(unpacked: Buffer, entry: ZipEntry): Buffer {
  if (unpacked.length !== entry.unpackedBytes || crc32(unpacked) !== entry.crc) throw damaged();
  return unpacked;
}

function damaged(): Error {
  return refusal('damaged', 'its archive is damaged');
}

function bound(text: string): Error {
  return refusal('bound', text);
}
