/**
 * Owns the pictures in documents of Office before 2007: JPEG and PNG, as its drawing layer stores them.
 * It must never take bytes for a picture whose record and own head do not both say so.
 */
import type { PagePart } from '../ocr/picture-texts.js';
import { type PptRecord, recordsOf } from './ppt-records.js';

/** Types of records, and how the picture within begins. */
const KINDS = [
  { type: 0xf01d, head: Buffer.of(0xff, 0xd8, 0xff) },
  { type: 0xf02a, head: Buffer.of(0xff, 0xd8, 0xff) },
  { type: 0xf01e, head: Buffer.of(0x89, 0x50, 0x4e, 0x47) },
] as const;
const HEADER_BYTES = 8;
/** One or two checksums, and a mark. */
const PREFIXES = [17, 33];
/** Of one document. */
export const PICTURES_MAX = 10_000;
/** The upper byte of each type, and where it stands. */
const MARK = 0xf0;
const MARK_AT = 3;

/** In the order of the streams and of each one's bytes; of each record the picture alone. */
export function blipsIn(...streams: readonly (Buffer | null)[]): PagePart[] {
  const found: PagePart[] = [];
  for (const bytes of streams) {
    for (let at = bytes?.indexOf(MARK, MARK_AT) ?? -1; bytes !== null && at >= 0; ) {
      if (found.length >= PICTURES_MAX) return found;
      const start = at - MARK_AT;
      const picture = blipAt(bytes, start);
      if (picture !== null) found.push(partOf(picture, found.length + 1));
      // Records do not overlap: bytes belong to one picture at most.
      at = bytes.indexOf(MARK, picture === null ? at + 1 : endOf(bytes, start) + MARK_AT);
    }
  }
  return found;
}

/** Options of a shape that name a picture: the one that it is, the one that fills it, the one that its lines are drawn with. */
export const PICTURE_OPTIONS: readonly number[] = [0x0104, 0x0186, 0x01c5];

const GROUP = 0xf000;
const STORE = 0xf001;
const STORED = 0xf007;
/** Of an entry of the store: how many shapes show its picture, the length of its name, and its fields. */
const SHAPES_AT = 24;
const NAME_LENGTH_AT = 33;
const ENTRY_BYTES = 36;

/** Entries of the store of pictures, in the order of their numbers. */
export function* storedIn(drawings: Iterable<PptRecord>): Generator<PptRecord> {
  for (const record of childrenOf(childrenOf(drawings, GROUP), STORE)) {
    if (record.type === STORED) yield record;
  }
}

/** Pictures that lie in the store of a drawing, of which a shape shows each. @param named their numbers, from 1 on. @param before how many the document has shown. */
export function storedBlips(drawing: Buffer, named: ReadonlySet<number>, before = 0): PagePart[] {
  const found: PagePart[] = [];
  let number = 0;
  for (const { data } of storedIn(recordsOf(drawing))) {
    number += 1;
    if (before + found.length >= PICTURES_MAX) break;
    if (!named.has(number)) continue;
    if (data.length < ENTRY_BYTES || data.readUInt32LE(SHAPES_AT) === 0) continue;
    const picture = blipAt(data, ENTRY_BYTES + data.readUInt8(NAME_LENGTH_AT));
    if (picture !== null) found.push(partOf(picture, before + found.length + 1));
  }
  return found;
}

export function* childrenOf(records: Iterable<PptRecord>, type: number): Generator<PptRecord> {
  for (const record of records) if (record.type === type) yield* record.children();
}

/** The picture of a record; null for one of another kind. */
export function blipAt(bytes: Buffer, at: number): Buffer | null {
  if (at < 0 || at + HEADER_BYTES > bytes.length) return null;
  const type = bytes.readUInt16LE(at + 2);
  const kind = KINDS.find((each) => each.type === type);
  if (kind === undefined) return null;
  const end = endOf(bytes, at);
  if (end > bytes.length) return null;
  for (const prefix of PREFIXES) {
    const picture = bytes.subarray(at + HEADER_BYTES + prefix, end);
    if (kind.head.equals(picture.subarray(0, kind.head.length))) return picture;
  }
  return null;
}

function endOf(bytes: Buffer, at: number): number {
  return at + HEADER_BYTES + bytes.readUInt32LE(at + 4);
}

export function partOf(picture: Buffer, number: number): PagePart {
  return { name: `picture ${number}`, bytes: () => picture };
}
