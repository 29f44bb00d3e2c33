/**
 * Owns the return of memory that the library has zeroed for a context and nobody has used: a page that the system takes
 * back is zero again when it is touched. It must never give back a byte of which it is not sure; then all of it stays.
 */
import { open, readFile } from 'node:fs/promises';
import { giveBack } from './libllama.js';

/** Less is not worth the search. */
const BYTES_MIN = 8 * 1024 * 1024;
const PAGE = 4_096n;
/** No system has larger pages by default. */
const PAGE_LARGEST = 65_536n;
/** A block of glibc's that is mapped for itself and aligned to 64 bytes begins so far into its first page. */
const BLOCK_AT = 48n;
const BLOCK_HEAD_BYTES = 16n;
const BLOCK_IS_MAPPED = 2n;
const BLOCK_FLAGS = 7n;
/** Pages that are looked at for the beginning of a block. */
const LOOKS_MAX = 65_536;
const SAMPLES = 64n;

/** From, inclusive, and to, exclusive. */
type Range = readonly [from: bigint, to: bigint];

let last: Promise<unknown> = Promise.resolve();

/**
 * One at a time, so that what is new in memory is known to be what was opened.
 * @param make something that zeroes so many bytes and does not use them yet, in one block or two.
 */
export function withoutZeroedMemory<Made>(make: () => Promise<Made>, bytes: number): Promise<Made> {
  const made = last.then(() => makeAndGiveBack(make, BigInt(bytes)));
  last = made.catch(() => {});
  return made;
}

async function makeAndGiveBack<Made>(make: () => Promise<Made>, bytes: bigint): Promise<Made> {
  const before = bytes < BYTES_MIN ? null : await mappings();
  const made = await make();
  if (before === null) return made;
  try {
    await giveBackNew(before, bytes);
  } catch {
    // The memory stays, and works as well.
  }
  return made;
}

async function giveBackNew(before: readonly Range[], bytes: bigint): Promise<void> {
  const fresh = without((await mappings()) ?? [], before);
  const memory = await open('/proc/self/mem', 'r');
  try {
    const read = async (at: bigint, length: number) => {
      const buffer = Buffer.alloc(length);
      const { bytesRead } = await memory.read({ buffer, position: Number(at) });
      return bytesRead === length ? buffer : null;
    };
    for (const block of matching(await blocksIn(fresh, read), bytes)) {
      const from = roundUp(block[0], PAGE_LARGEST);
      const to = block[1] - (block[1] % PAGE_LARGEST);
      if (await isZero([from, to], read)) giveBack(from, Number(to - from));
    }
  } finally {
    await memory.close();
  }
}

type Read = (at: bigint, length: number) => Promise<Buffer | null>;

/** Memory that may be written, is this process's alone, and belongs to no file; null where the system does not say. */
async function mappings(): Promise<Range[] | null> {
  const text = await readFile('/proc/self/maps', 'utf8').catch(() => null);
  if (text === null) return null;
  const lines = [...text.matchAll(/^([0-9a-f]+)-([0-9a-f]+) rw-p \S+ \S+ 0 *$/gm)];
  return lines.map(([, from, to]) => [BigInt(`0x${from}`), BigInt(`0x${to}`)]);
}

/** What is in the first list and not in the second; both are in order. */
function without(ranges: readonly Range[], others: readonly Range[]): Range[] {
  const left: Range[] = [];
  for (const [from, to] of ranges) {
    let at = from;
    for (const [start, end] of others) {
      if (end <= at || start >= to) continue;
      if (start > at) left.push([at, start]);
      at = end;
    }
    if (at < to) left.push([at, to]);
  }
  return left;
}

/** Blocks of memory, as glibc writes their heads. The bytes are read as a file: memory may be unmapped meanwhile. */
async function blocksIn(ranges: readonly Range[], read: Read): Promise<Range[]> {
  const blocks: Range[] = [];
  let looks = 0;
  for (const [from, to] of ranges) {
    for (let page = from; page + BigInt(BYTES_MIN) <= to && looks < LOOKS_MAX; looks++) {
      const block = await blockAt(page, to, read);
      if (block !== null) blocks.push(block);
      page = block === null ? page + PAGE : roundUp(block[1], PAGE);
    }
  }
  return blocks;
}

async function blockAt(page: bigint, end: bigint, read: Read): Promise<Range | null> {
  const head = await read(page + BLOCK_AT, Number(BLOCK_HEAD_BYTES));
  if (head === null || head.readBigUInt64LE(0) !== BLOCK_AT) return null;
  const size = head.readBigUInt64LE(8);
  const to = page + BLOCK_AT + size - (size & BLOCK_FLAGS);
  const isBlock = (size & BLOCK_FLAGS) === BLOCK_IS_MAPPED && to <= end;
  return isBlock ? [page + BLOCK_AT + BLOCK_HEAD_BYTES, to] : null;
}

/** The one block, or the two, that have as many bytes and what rounding adds to them. */
function matching(blocks: readonly Range[], bytes: bigint): readonly Range[] {
  const sizeOf = ([from, to]: Range) => to - from;
  const fits = (size: bigint, count: bigint) =>
    size >= bytes && size <= bytes + count * PAGE_LARGEST;
  for (const [i, one] of blocks.entries()) {
    if (fits(sizeOf(one), 1n)) return [one];
    const other = blocks.slice(i + 1).find((each) => fits(sizeOf(one) + sizeOf(each), 2n));
    if (other !== undefined) return [one, other];
  }
  return [];
}

/** By pages spread over it. */
async function isZero([from, to]: Range, read: Read): Promise<boolean> {
  const step = (to - from) / SAMPLES;
  for (let sample = 0n; sample < SAMPLES; sample++) {
    const bytes = await read(from + sample * step, Number(PAGE));
    if (bytes === null || bytes.some((byte) => byte !== 0)) return false;
  }
  return true;
}

function roundUp(value: bigint, to: bigint): bigint {
  return ((value + to - 1n) / to) * to;
}
