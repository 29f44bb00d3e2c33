/**
 * Owns the lists of a doc of Word 97 to 2003: which marker stands before an item.
 * It must never read the text of an item, or a list beyond the bytes of the table stream.
 */
import type { DocParagraph } from './doc-properties.js';
import { ListCounter, type ListLevel } from './numbering.js';

const LISTS = 0x2e2;
const OVERRIDES = 0x2ea;
const LIST_BYTES = 28;
const LEVEL_BYTES = 28;
const OVERRIDE_BYTES = 16;
/** Paragraphs can name no more. */
const OVERRIDES_MAX = 0x7fe;
const LEVELS = 9;
const NUMBER_FORMATS = new Map([
  [1, 'upperRoman'],
  [2, 'lowerRoman'],
  [3, 'upperLetter'],
  [4, 'lowerLetter'],
  [22, 'decimalZero'],
  [23, 'bullet'],
  [255, 'none'],
]);

const LEGAL = 0x04;
const RESTARTS_LESS = 0x08;

type Levels = Map<number, ListLevel>;

interface DocList {
  /** Lists that share a key go on counting. */
  readonly key: string;
  readonly levels: Levels;
}

export class DocLists {
  readonly #lists: readonly DocList[];
  readonly #counter = new ListCounter();

  constructor(main: Buffer, table: Buffer) {
    this.#lists = readLists(main, table);
  }

  /** Advances the counter: call it once for each paragraph, in order. */
  marker({ list, level }: DocParagraph): string {
    // The first is 1; a list taken back is a negative number.
    const found = this.#lists[list - 1];
    if (found === undefined || level >= LEVELS) return '';
    return this.#counter.next(found.key, found.levels, level);
  }
}

/** Damage to lists costs their numbers, never the text. */
function readLists(main: Buffer, table: Buffer): DocList[] {
  try {
    return readOverrides(main, table, readLevels(main, table));
  } catch (cause) {
    if (cause instanceof RangeError) return [];
    throw cause;
  }
}

/** A cursor over the table stream. */
interface Place {
  at: number;
}

/** By the id of the list. The levels of all lists follow behind the last list. */
function readLevels(main: Buffer, table: Buffer): Map<number, Levels> {
  const start = main.readUInt32LE(LISTS);
  const lists = new Map<number, Levels>();
  if (main.readUInt32LE(LISTS + 4) === 0) return lists;
  const count = table.readUInt16LE(start);
  const place = { at: start + 2 + count * LIST_BYTES };
  for (let index = 0; index < count; index++) {
    const head = start + 2 + index * LIST_BYTES;
    const isSimple = (table.readUInt8(head + 26) & 1) !== 0;
    const levels: Levels = new Map();
    for (let level = 0; level < (isSimple ? 1 : LEVELS); level++) {
      levels.set(level, readLevel(table, place));
    }
    lists.set(table.readInt32LE(head), levels);
  }
  return lists;
}

/** In the text, a character below 9 stands for the number of that level. */
function readLevel(table: Buffer, place: Place): ListLevel {
  const { at } = place;
  const formats = table.readUInt8(at + 24) + table.readUInt8(at + 25);
  const start = at + LEVEL_BYTES + formats;
  const length = table.readUInt16LE(start);
  place.at = start + 2 + length * 2;
  const text = table.toString('utf16le', start + 2, place.at);
  const flags = table.readUInt8(at + 5);
  return {
    start: table.readInt32LE(at),
    format: NUMBER_FORMATS.get(table.readUInt8(at + 4)) ?? 'decimal',
    legal: (flags & LEGAL) !== 0,
    ...((flags & RESTARTS_LESS) !== 0 && { restartsAfter: table.readUInt8(at + 26) }),
    text: [...text].map((each) => (each < '\t' ? `%${each.charCodeAt(0) + 1}` : each)).join(''),
  };
}

/** Paragraphs name a list by its place among the overrides, which may start it anew. */
function readOverrides(main: Buffer, table: Buffer, lists: ReadonlyMap<number, Levels>): DocList[] {
  const start = main.readUInt32LE(OVERRIDES);
  if (main.readUInt32LE(OVERRIDES + 4) === 0) return [];
  const count = table.readUInt32LE(start);
  const found: DocList[] = [];
  const place = { at: start + 4 + count * OVERRIDE_BYTES };
  for (let index = 0; index < Math.min(count, OVERRIDES_MAX); index++) {
    const head = start + 4 + index * OVERRIDE_BYTES;
    const id = table.readInt32LE(head);
    const levels: Levels = new Map([...(lists.get(id) ?? [])].map(([at, of]) => [at, { ...of }]));
    const own = table.readUInt8(head + 12);
    place.at += 4;
    for (let each = 0; each < own; each++) readOverride(table, place, levels);
    found.push({ key: own > 0 ? `${id} ${index}` : String(id), levels });
  }
  return found;
}

const OVERRIDES_START = 0x10;
const OVERRIDES_FORMAT = 0x20;

function readOverride(table: Buffer, place: Place, levels: Levels): void {
  const start = table.readInt32LE(place.at);
  const flags = table.readUInt32LE(place.at + 4);
  place.at += 8;
  const number = flags & 0xf;
  if ((flags & OVERRIDES_FORMAT) !== 0) levels.set(number, readLevel(table, place));
  const level = levels.get(number);
  if (level !== undefined && (flags & OVERRIDES_START) !== 0) level.start = start;
}
