/**
 * Owns the log of a part: for each of its versions the keys that changed, so that who copies the part reads what is new.
 * It must never be needed for what is stored: a row that is missing only means that a copy is made anew.
 */
import type { PartName } from './postgres-tables.js';

const VERSION_BYTES = 8;
const LENGTH_BYTES = 2;

/** Its rows lie beside those of the part. */
export const logOf = (part: PartName): string => `${part}-log`;

export function logKey(version: number): Buffer {
  const key = Buffer.alloc(VERSION_BYTES);
  key.writeBigUInt64BE(BigInt(version));
  return key;
}

export function packKeys(keys: readonly Buffer[]): Buffer {
  return Buffer.concat(
    keys.flatMap((key) => {
      const length = Buffer.alloc(LENGTH_BYTES);
      length.writeUInt16BE(key.length);
      return [length, key];
    }),
  );
}

export function unpackKeys(packed: Buffer): Buffer[] {
  const keys: Buffer[] = [];
  for (let at = 0; at < packed.length; ) {
    const start = at + LENGTH_BYTES;
    at = start + packed.readUInt16BE(at);
    keys.push(packed.subarray(start, at));
  }
  return keys;
}
