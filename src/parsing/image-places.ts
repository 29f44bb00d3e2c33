/**
 * Owns where images stand in a request of each wire form; what was cut out of another place goes back there.
 * It must never leave a mark where somebody could read it as text.
 */
import { limits } from '../limits/index.js';
import { hasMark, type LargeImages, withImages } from '../pool/large-images.js';
import type { WireFormName } from '../protocol/wire-forms.js';
import { tooLarge } from './image-cut.js';

const ITEM_PLACES = ['/input/*/content/*/image_url', '/input/*/output/*/image_url'];

/** Paths with `*` for a position. */
const PLACES: Readonly<Record<WireFormName, readonly string[]>> = {
  chat: ['/messages/*/content/*/image_url/url'],
  completions: [],
  messages: ['/messages/*/content/*/source/data', '/messages/*/content/*/content/*/source/data'],
  responses: ITEM_PLACES,
  compaction: ITEM_PLACES,
  responseEvents: ITEM_PLACES,
};

/** @throws ApiError where what goes back is too long for a text. */
export function restoreTexts(value: unknown, form: WireFormName, images: LargeImages): void {
  new Restorer(form, images).walk(value, '');
}

class Restorer {
  readonly #places: ReadonlySet<string>;
  #left: number = limits.imageBodyTextBytesMax;

  constructor(
    form: WireFormName,
    readonly images: LargeImages,
  ) {
    this.#places = new Set(PLACES[form]);
  }

  /** Recursion is bounded: the depth was checked on the text. */
  walk(value: unknown, path: string): void {
    if (typeof value !== 'object' || value === null) return;
    const isList = Array.isArray(value);
    const holder = value as Record<string, unknown>;
    for (const key of Object.keys(holder)) {
      const item = holder[key];
      const here = `${path}/${isList ? '*' : key.replaceAll('/', '//')}`;
      if (typeof item !== 'string') this.walk(item, here);
      else if (hasMark(item, this.images) && !this.#isImage(here, item, holder)) {
        holder[key] = this.#restored(item);
      }
    }
  }

  /** The source of a document has the place of an image's, and may be text. An address is none without its beginning. */
  #isImage(path: string, item: string, holder: Readonly<Record<string, unknown>>): boolean {
    if (!this.#places.has(path)) return false;
    return path.endsWith('/data') ? holder.type === 'base64' : item.startsWith('data:');
  }

  #restored(text: string): string {
    const whole = withImages(text, this.images, this.images.bytes);
    this.#left -= whole.length;
    if (this.#left < 0) throw tooLarge();
    return whole;
  }
}
