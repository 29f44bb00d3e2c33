/**
 * Owns how a good document is damaged: cut short, or changed by chance that can be repeated.
 * It must depend on its bytes and its seed alone, and never change the bytes it was given.
 */
import type { Random } from './random-text.js';

/** The first parts of it, at so many places. */
export function truncations(bytes: Uint8Array, count: number): Uint8Array[] {
  return Array.from({ length: count }, (_, at) =>
    bytes.subarray(0, Math.floor((bytes.length * at) / count)),
  );
}

/** One to eight changes of kinds that real damage and hostile writers know. */
export function mutation(bytes: Uint8Array, random: Random): Uint8Array {
  let changed = Buffer.from(bytes);
  for (let left = 1 + random(8); left > 0; left -= 1) {
    const change = changes[random(changes.length)] ?? flip;
    if (changed.length > 0) changed = change(changed, random);
  }
  return changed;
}

type Change = (bytes: Buffer<ArrayBuffer>, random: Random) => Buffer<ArrayBuffer>;

const flip: Change = (bytes, random) => {
  const at = random(bytes.length);
  bytes[at] = (bytes[at] ?? 0) ^ (1 << random(8));
  return bytes;
};

/** Lengths, counts and offsets become the largest there are, or none. */
const extreme: Change = (bytes, random) => {
  const at = random(bytes.length);
  const end = Math.min(bytes.length, at + (1 << random(4)));
  return bytes.fill([0x00, 0xff, 0x7f, 0x80][random(4)] ?? 0, at, end);
};

const noise: Change = (bytes, random) => {
  const at = random(bytes.length);
  const end = Math.min(bytes.length, at + 1 + random(64));
  for (let i = at; i < end; i += 1) bytes[i] = random(256);
  return bytes;
};

const cutOut: Change = (bytes, random) => {
  const at = random(bytes.length);
  return Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + 1 + random(256))]);
};

const doubled: Change = (bytes, random) => {
  const at = random(bytes.length);
  const end = at + 1 + random(4096);
  return Buffer.concat([bytes.subarray(0, end), bytes.subarray(at)]);
};

const swapped: Change = (bytes, random) => {
  const middle = random(bytes.length);
  const end = middle + random(bytes.length - middle);
  const start = random(middle + 1);
  return Buffer.concat([
    bytes.subarray(0, start),
    bytes.subarray(middle, end),
    bytes.subarray(start, middle),
    bytes.subarray(end),
  ]);
};

/** Digits of lengths and references that are written as text. */
const digits: Change = (bytes, random) => {
  const from = random(bytes.length);
  const at = bytes.findIndex((byte, i) => i >= from && byte >= 0x30 && byte <= 0x39);
  if (at >= 0) bytes[at] = 0x30 + random(10);
  return bytes;
};

const changes: readonly Change[] = [flip, extreme, noise, cutOut, doubled, swapped, digits];
