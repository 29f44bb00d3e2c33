/**
 * Owns the pictures in documents of Office before 2007: JPEG and PNG, as its drawing layer stores them.
 * It must never take bytes for a picture whose record and own head do not both say so.
 */
import type { PagePart } from '../ocr/picture-texts.js';

/** Types of records, and how the picture within begins. */
const KINDS = [
  { type: 0xf01d, head: Buffer.of(0xff, 0xd8, 0xff) },
  { type: 0xf02a, head: Buffer.of(0xff, 0xd8, 0xff) },
  { type: 0xf01e, head: Buffer.of(0x89, 0x50, 0x4e, 0x47) },
] as const;
const HEADER_BYTES = 8;
/** One or two checksums, and a mark. */
const PREFIXES = [17, 33];
const PICTURES_MAX = 10_000;

/** In their order; of each record the picture alone. */
export function blipsIn(bytes: Buffer): PagePart[] {
  const found = KINDS.flatMap(({ type }) => {
    const mark = Buffer.of(type & 0xff, type >> 8);
    const places: number[] = [];
    for (let at = bytes.indexOf(mark, 2); at >= 0; at = bytes.indexOf(mark, at + 1)) {
      if (blipAt(bytes, at - 2) !== null) places.push(at - 2);
      if (places.length >= PICTURES_MAX) break;
    }
    return places;
  });
  return found
    .sort((a, b) => a - b)
    .flatMap((at, index) => partOf(blipAt(bytes, at), index + 1) ?? []);
}

/** The picture of a record; null for one of another kind. */
export function blipAt(bytes: Buffer, at: number): Buffer | null {
  if (at < 0 || at + HEADER_BYTES > bytes.length) return null;
  const type = bytes.readUInt16LE(at + 2);
  const end = at + HEADER_BYTES + bytes.readUInt32LE(at + 4);
  const kind = KINDS.find((each) => each.type === type);
  if (kind === undefined || end > bytes.length) return null;
  for (const prefix of PREFIXES) {
    const picture = bytes.subarray(at + HEADER_BYTES + prefix, end);
    if (kind.head.equals(picture.subarray(0, kind.head.length))) return picture;
  }
  return null;
}

export function partOf(picture: Buffer | null, number: number): PagePart | null {
  return picture && { name: `picture ${number}`, bytes: () => picture };
}
