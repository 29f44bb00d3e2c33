/**
 * Owns the writing of GGUF files for tests: metadata and tensors, in the format's third version.
 * It must never write a file that the library would refuse: offsets are aligned, shapes are stored last axis first.
 */
import { writeFile } from 'node:fs/promises';

export type GgufValue =
  | string
  | boolean
  | number
  | { readonly float: number }
  | { readonly short: number }
  | { readonly signed: number }
  | readonly string[]
  | readonly number[]
  | Uint8Array;

export interface GgufTensor {
  readonly name: string;
  /** Rows first, as numpy writes shapes. */
  readonly shape: readonly number[];
  readonly values: Float32Array;
  readonly kind: 'f16' | 'f32';
}

const ALIGNMENT = 32;
const UINT16 = 2;
const UINT32 = 4;
const INT32 = 5;
const FLOAT32 = 6;
const BOOL = 7;
const STRING = 8;
const ARRAY = 9;
const UINT8 = 0;

export async function writeGguf(
  path: string,
  metadata: ReadonlyMap<string, GgufValue>,
  tensors: readonly GgufTensor[],
): Promise<void> {
  const data = tensors.map(({ values, kind }) => bytesOf(values, kind));
  const head = [Buffer.from('GGUF'), u32(3), u64(tensors.length), u64(metadata.size)];
  for (const [key, value] of metadata) head.push(text(key), ...encoded(value));
  let offset = 0;
  for (const [i, { name, shape, kind }] of tensors.entries()) {
    head.push(text(name), u32(shape.length), ...[...shape].reverse().map(u64));
    head.push(u32(kind === 'f16' ? 1 : 0), u64(offset));
    offset += padded(data[i]?.length ?? 0);
  }
  const start = Buffer.concat(head);
  const body = data.map((bytes) =>
    Buffer.concat([bytes, Buffer.alloc(padded(bytes.length) - bytes.length)]),
  );
  await writeFile(
    path,
    Buffer.concat([start, Buffer.alloc(padded(start.length) - start.length), ...body]),
  );
}

function padded(bytes: number): number {
  return Math.ceil(bytes / ALIGNMENT) * ALIGNMENT;
}

function encoded(value: GgufValue): Buffer[] {
  if (typeof value === 'string') return [u32(STRING), text(value)];
  if (typeof value === 'boolean') return [u32(BOOL), Buffer.from([Number(value)])];
  if (typeof value === 'number') return [u32(UINT32), u32(value)];
  if (value instanceof Uint8Array)
    return [u32(ARRAY), u32(UINT8), u64(value.length), Buffer.from(value)];
  if ('float' in value) return [u32(FLOAT32), f32(value.float)];
  if ('signed' in value) return [u32(INT32), i32(value.signed)];
  if ('short' in value) return [u32(UINT16), u16(value.short)];
  const ofText = typeof value[0] === 'string';
  const items = value.map((item) => (typeof item === 'string' ? text(item) : i32(item)));
  return [u32(ARRAY), u32(ofText ? STRING : INT32), u64(value.length), ...items];
}

function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

function u16(value: number): Buffer {
  const bytes = Buffer.alloc(2);
  bytes.writeUInt16LE(value);
  return bytes;
}

function i32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32LE(value);
  return bytes;
}

function u64(value: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return bytes;
}

function f32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeFloatLE(value);
  return bytes;
}

function text(value: string): Buffer {
  const bytes = Buffer.from(value, 'utf8');
  return Buffer.concat([u64(bytes.length), bytes]);
}

function bytesOf(values: Float32Array, kind: 'f16' | 'f32'): Buffer {
  if (kind === 'f32') return Buffer.from(values.buffer, values.byteOffset, values.byteLength);
  return Buffer.from(Uint16Array.from(values, halfOf).buffer);
}

const single = new Float32Array(1);
const bits = new Uint32Array(single.buffer);

/** Rounds down to a 16-bit float; all values of tests are zero or in its normal range. */
function halfOf(value: number): number {
  single[0] = value;
  const [of = 0] = bits;
  const exponent = ((of >>> 23) & 0xff) - 112;
  if (exponent <= 0) return 0;
  return ((of >>> 16) & 0x8000) | (exponent << 10) | ((of >>> 13) & 0x3ff);
}
