/**
 * Owns small GGUF files that hold only a vocabulary, made from the metadata of a real file.
 * It must never write tensors.
 */
import { closeSync, openSync, readSync, writeFileSync } from 'node:fs';

const MAGIC_AND_VERSION_BYTES = 8;
const COUNTS_BYTES = 16;
const HEAD_BYTES_MAX = 4 * 1024 * 1024;

/** A copy of the metadata with another string under `key`, in a file without tensors. */
export function writeVocabularyFile(from: string, to: string, key: string, text: string): void {
  const head = readHead(from);
  const end = metadataEnd(head);
  const at = head.indexOf(stringBytes(key));
  const value = at + 8 + key.length + 4;
  const old = Number(head.readBigUInt64LE(value));
  const counts = Buffer.from(head.subarray(0, MAGIC_AND_VERSION_BYTES + COUNTS_BYTES));
  counts.writeBigUInt64LE(0n, MAGIC_AND_VERSION_BYTES);
  writeFileSync(
    to,
    Buffer.concat([
      counts,
      head.subarray(MAGIC_AND_VERSION_BYTES + COUNTS_BYTES, value),
      stringBytes(text),
      head.subarray(value + 8 + old, end),
      Buffer.alloc(64),
    ]),
  );
}

function readHead(path: string): Buffer {
  const file = openSync(path, 'r');
  const head = Buffer.alloc(HEAD_BYTES_MAX);
  const length = readSync(file, head, 0, HEAD_BYTES_MAX, 0);
  closeSync(file);
  return head.subarray(0, length);
}

function stringBytes(text: string): Buffer {
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(Buffer.byteLength(text)));
  return Buffer.concat([length, Buffer.from(text)]);
}

/** Sizes of the scalar types 0…12; 8 is a string and 9 an array. */
const SIZES = [1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8];

/** Where the metadata ends, and the tensors begin. */
export function metadataEnd(head: Buffer): number {
  let at = MAGIC_AND_VERSION_BYTES + COUNTS_BYTES;
  const skipText = (): void => {
    at += 8 + Number(head.readBigUInt64LE(at));
  };
  const skipValue = (type: number): void => {
    if (type === 8) skipText();
    else if (type === 9) {
      const itemType = head.readUInt32LE(at);
      const count = Number(head.readBigUInt64LE(at + 4));
      at += 12;
      for (let item = 0; item < count; item += 1) skipValue(itemType);
    } else at += SIZES[type] ?? 0;
  };
  for (let left = Number(head.readBigUInt64LE(16)); left > 0; left -= 1) {
    skipText();
    at += 4;
    skipValue(head.readUInt32LE(at - 4));
  }
  return at;
}
