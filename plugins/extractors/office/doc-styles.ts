/**
 * Owns what the styles of a doc say of their paragraphs: which list, and how deep in it.
 * It must never follow a chain of styles longer than a document can have.
 */
import { operands } from './doc-operands.js';

export interface DocStyle {
  readonly list: number | null;
  readonly level: number | null;
}

const STYLES = 0xa2;
const CHAIN_MAX = 32;
const PARAGRAPH_STYLE = 1;
const NO_BASE = 0xfff;
const LIST = 0x460b;
const LIST_LEVEL = 0x260a;

interface Stored extends DocStyle {
  readonly base: number;
}

export function listOf(found: ReadonlyMap<number, number>): DocStyle {
  return { list: found.get(LIST) ?? null, level: found.get(LIST_LEVEL) ?? null };
}

/** By the number of the style; what it does not say is what its base says. */
export function readStyles(main: Buffer, table: Buffer): DocStyle[] {
  const stored = storedStyles(main, table);
  return stored.map((style) => {
    let { list = null, level = null } = style ?? {};
    let base = style?.base ?? NO_BASE;
    for (let step = 0; step < CHAIN_MAX && (list === null || level === null); step++) {
      const above = stored[base];
      if (above === undefined || above === null) break;
      list ??= above.list;
      level ??= above.level;
      base = above.base;
    }
    return { list, level };
  });
}

function storedStyles(main: Buffer, table: Buffer): (Stored | null)[] {
  const start = main.readUInt32LE(STYLES);
  const end = Math.min(start + main.readUInt32LE(STYLES + 4), table.length);
  const found: (Stored | null)[] = [];
  if (end - start < 6) return found;
  const head = table.readUInt16LE(start);
  const fixedBytes = table.readUInt16LE(start + 4);
  for (let at = start + 2 + head; at + 2 <= end; ) {
    const bytes = table.readUInt16LE(at);
    found.push(storedStyle(table.subarray(at + 2, Math.min(at + 2 + bytes, end)), fixedBytes));
    at += 2 + bytes;
  }
  return found;
}

/** Null for one that is not of paragraphs. A name, then the number of the style itself, stand before its codes. */
function storedStyle(style: Buffer, fixedBytes: number): Stored | null {
  if (style.length < fixedBytes + 2 || fixedBytes < 6) return null;
  const kind = style.readUInt16LE(2);
  if ((kind & 0xf) !== PARAGRAPH_STYLE) return null;
  const named = fixedBytes + 2 + (style.readUInt16LE(fixedBytes) + 1) * 2;
  const at = named + (named % 2);
  if (at + 4 > style.length) return { base: kind >> 4, list: null, level: null };
  const codes = style.subarray(at + 4, at + 2 + style.readUInt16LE(at));
  return { base: kind >> 4, ...listOf(operands(codes)) };
}
