/**
 * Owns which pictures a slide of PowerPoint 97 to 2003 shows.
 * It must never look into a picture.
 */
import type { PagePart } from '../ocr/picture-texts.js';
import { blipAt, childrenOf, PICTURE_OPTIONS, PICTURES_MAX, partOf, storedIn } from './blips.js';
import type { PptRecord } from './ppt-records.js';

const DRAWING_GROUP = 0x040b;
/** Of a stored picture: where it lies in the stream of pictures. */
const PLACE_AT = 28;
const OPTIONS = 0xf00b;
/** Of an option: the two upper bits say what kind its value is of. */
const OPTION_BITS = 0x3fff;
const OPTION_BYTES = 6;

export class PptPictures {
  readonly #stored: PptRecord[] = [];
  /** Numbers of the pictures that a slide has shown: any number of shapes may name one. */
  readonly #named = new Set<number>();

  constructor(
    document: PptRecord,
    readonly stream: Buffer | null,
  ) {
    for (const record of storedIn(childrenOf(document.children(), DRAWING_GROUP))) {
      if (this.#stored.length >= PICTURES_MAX) break;
      this.#stored.push(record);
    }
  }

  /** In the order of the shapes, those of groups among them; each picture once in the document. */
  shownBy(slide: PptRecord, depthMax: number): PagePart[] {
    const shown: PagePart[] = [];
    const walk = (record: PptRecord, depth: number) => {
      if (record.type === OPTIONS) {
        for (const number of picturesOf(record)) {
          const part = this.#part(number);
          if (part !== null) shown.push(part);
        }
      }
      if (depth < depthMax) for (const child of record.children()) walk(child, depth + 1);
    };
    walk(slide, 0);
    return shown;
  }

  /** @param number from 1 on; 0 for none. */
  #part(number: number): PagePart | null {
    const stored = this.#stored[number - 1];
    if (this.stream === null || stored === undefined || this.#named.has(number)) return null;
    this.#named.add(number);
    if (stored.data.length < PLACE_AT + 4) return null;
    const picture = blipAt(this.stream, stored.data.readUInt32LE(PLACE_AT));
    return picture && partOf(picture, number);
  }
}

/** The numbers of the pictures that a shape's options name; 0 is none. */
export function* picturesOf({ data, instance }: PptRecord): Generator<number> {
  for (let at = 0; at < instance * OPTION_BYTES && at + OPTION_BYTES <= data.length; ) {
    const option = data.readUInt16LE(at) & OPTION_BITS;
    if (PICTURE_OPTIONS.includes(option)) yield data.readUInt32LE(at + 2);
    at += OPTION_BYTES;
  }
}
