/**
 * Owns the making of a slower model that gives the same answers: the layers of a GGUF, and more behind them that add nothing.
 * It must never be taken for a better model: it stands in for one where none of its family can be had.
 */
import { open } from 'node:fs/promises';
import { metadataEnd } from '../../test/support/gguf-file.js';

interface Tensor {
  readonly name: string;
  /** Length of each axis, then the type, as in the file. */
  readonly shape: Buffer;
  readonly data: Buffer;
}

interface Gguf {
  /** Up to the tensors, with their number and that of the settings. */
  readonly settings: Buffer;
  readonly tensors: readonly Tensor[];
}

const ALIGNMENT = 32;
const COUNTS_AT = 8;
const LAYER = /^blk\.(\d+)\./;
/** What a layer adds to its input goes through one of these: with zeros there it adds nothing. */
const OUTPUTS = /\.(attn_output|ffn_down)\.weight$/;

/** Writes the model of `from` with `times` as many layers. */
export async function writeDeeperModel(from: string, to: string, times: number): Promise<void> {
  const { settings, tensors } = await readGguf(from);
  const layers = 1 + Math.max(...tensors.map(({ name }) => Number(LAYER.exec(name)?.[1] ?? -1)));
  const first = tensors.filter(({ name }) => name.startsWith('blk.0.'));
  const more = Array.from({ length: layers * (times - 1) }, (_, at) =>
    first.map((tensor) => ({ ...empty(tensor), name: renamed(tensor.name, layers + at) })),
  );
  await writeGguf(to, {
    settings: withLayers(settings, layers * times),
    tensors: [...tensors, ...more.flat()],
  });
}

function empty(tensor: Tensor): Tensor {
  // Zero bytes are zeros in every type of the library's.
  return OUTPUTS.test(tensor.name) ? { ...tensor, data: Buffer.alloc(tensor.data.length) } : tensor;
}

const renamed = (name: string, layer: number) => name.replace(LAYER, `blk.${layer}.`);

/** The number stands behind its key as an unsigned 32-bit integer. */
function withLayers(settings: Buffer, layers: number): Buffer {
  const key = '.block_count';
  const changed = Buffer.from(settings);
  changed.writeUInt32LE(layers, settings.indexOf(key) + key.length + 4);
  return changed;
}

async function readGguf(path: string): Promise<Gguf> {
  const file = await open(path);
  const bytes = await file.readFile();
  await file.close();
  const count = Number(bytes.readBigUInt64LE(COUNTS_AT));
  let at = metadataEnd(bytes);
  const settings = bytes.subarray(0, at);
  const found = Array.from({ length: count }, () => {
    const nameAt = at + 8;
    at = nameAt + Number(bytes.readBigUInt64LE(at));
    const name = bytes.toString('utf8', nameAt, at);
    const shape = bytes.subarray(at, at + 4 + 8 * bytes.readUInt32LE(at) + 4);
    at += shape.length + 8;
    return { name, shape, offset: Number(bytes.readBigUInt64LE(at - 8)) };
  });
  const start = aligned(at);
  const tensors = found.map(({ name, shape, offset }, index) => {
    const end = found[index + 1]?.offset ?? bytes.length - start;
    return { name, shape, data: bytes.subarray(start + offset, start + end) };
  });
  return { settings, tensors };
}

async function writeGguf(path: string, { settings, tensors }: Gguf): Promise<void> {
  const counted = Buffer.from(settings);
  counted.writeBigUInt64LE(BigInt(tensors.length), COUNTS_AT);
  let offset = 0;
  const heads = tensors.map(({ name, shape, data }) => {
    const text = Buffer.from(name);
    const numbers = Buffer.alloc(16);
    numbers.writeBigUInt64LE(BigInt(text.length), 0);
    numbers.writeBigUInt64LE(BigInt(offset), 8);
    offset += aligned(data.length);
    return Buffer.concat([numbers.subarray(0, 8), text, shape, numbers.subarray(8)]);
  });
  const file = await open(path, 'w');
  try {
    const head = Buffer.concat([counted, ...heads]);
    await file.write(padded(head));
    for (const { data } of tensors) await file.write(padded(data));
  } finally {
    await file.close();
  }
}

const aligned = (length: number) => Math.ceil(length / ALIGNMENT) * ALIGNMENT;
const padded = (bytes: Buffer) =>
  Buffer.concat([bytes, Buffer.alloc(aligned(bytes.length) - bytes.length)]);
