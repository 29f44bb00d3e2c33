/**
 * Owns the cut of images out of the bytes of a large body: what is left is parsed, and the images are held once.
 * It must never read what a field means, nor copy an image.
 */
import { randomBytes } from 'node:crypto';
import { ApiError } from '../errors.js';
import { limits } from '../limits/index.js';
import { imageMark, type LargeImages, lengthBeyondMarks } from '../pool/large-images.js';
import type { OwnBytes } from '../pool/memory.js';

export interface CutBody {
  /** JSON with a mark in place of each image. */
  readonly json: Buffer;
  readonly images: LargeImages;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/**
 * Takes the body's memory for the images.
 * @throws ApiError for a body that has no images, or too much beside them.
 */
export function cutImages(body: OwnBytes): CutBody {
  const cutter = new Cutter(Buffer.from(body.buffer, body.byteOffset, body.byteLength));
  const { json, secret, ends } = cutter.cut();
  const last = ends.at(-1);
  if (last === undefined) throw tooLarge();
  body.buffer.resize(last);
  return { json, images: { secret, ends, bytes: new Uint8Array(body.buffer, 0, last) } };
}

/** What a body without such images is told. */
export function tooLarge(): ApiError {
  return new ApiError('bodyTooLarge', { bytes_max: limits.bodyBytesMax });
}

/** Where a place of the cut JSON is in what the client sent, in UTF-16 units. */
export function sentPosition({ json, images }: CutBody, position: number): number {
  const before = json.toString().slice(0, position);
  return position + lengthBeyondMarks(before, images);
}

class Cutter {
  readonly secret = randomBytes(16).toString('hex');
  readonly ends: number[] = [];
  readonly #texts: Buffer[] = [];
  #textBytes = 0;
  /** What is before it was taken. */
  #taken = 0;

  constructor(readonly bytes: Buffer) {}

  cut() {
    const { bytes, secret, ends } = this;
    for (let open = bytes.indexOf(QUOTE); open >= 0; ) {
      const close = closingQuote(bytes, open + 1);
      if (close < 0) break;
      if (close - open > limits.imageCutBytesMin) this.#look(open + 1, close);
      this.#checkText(close);
      open = bytes.indexOf(QUOTE, close + 1);
    }
    this.#checkText(bytes.length);
    this.#text(bytes.length);
    return { json: Buffer.concat(this.#texts), secret, ends };
  }

  /** @throws ApiError for too much text: nothing more of it is looked at then. */
  #checkText(end: number): void {
    if (this.#textBytes + end - this.#taken > limits.imageBodyTextBytesMax) throw tooLarge();
  }

  #look(start: number, end: number): void {
    const from = payloadStart(this.bytes, start);
    if (isKey(this.bytes, end) || !isBase64(this.bytes, from, end)) return;
    this.#text(from);
    this.#texts.push(Buffer.from(imageMark(this, this.ends.length)));
    const to = this.ends.at(-1) ?? 0;
    this.bytes.copyWithin(to, from, end);
    this.ends.push(to + end - from);
    this.#taken = end;
  }

  #text(end: number): void {
    this.#texts.push(Buffer.from(this.bytes.subarray(this.#taken, end)));
    this.#textBytes += end - this.#taken;
    this.#taken = end;
  }
}

/** Of the string that begins before `from`; -1 for none. */
function closingQuote(bytes: Buffer, from: number): number {
  for (let at = bytes.indexOf(QUOTE, from); at >= 0; at = bytes.indexOf(QUOTE, at + 1)) {
    let slashes = 0;
    while (at - 1 - slashes >= from && bytes[at - 1 - slashes] === BACKSLASH) slashes += 1;
    if (slashes % 2 === 0) return at;
  }
  return -1;
}

const COLON = 0x3a;
const SPACES: ReadonlySet<number | undefined> = new Set([0x20, 0x09, 0x0a, 0x0d]);

/** Whether the string that ends there names a field. */
function isKey(bytes: Buffer, close: number): boolean {
  let at = close + 1;
  while (SPACES.has(bytes[at])) at += 1;
  return bytes[at] === COLON;
}

const HEAD = /^data:image\/[^"\\]{1,640}?;base64,/;
const HEAD_BYTES_MAX = 1_024;

/** Behind what a data URL begins with. */
function payloadStart(bytes: Buffer, start: number): number {
  const head = HEAD.exec(bytes.toString('latin1', start, start + HEAD_BYTES_MAX));
  return start + (head?.[0].length ?? 0);
}

const BASE64 = Uint8Array.from({ length: 256 }, (_, code) =>
  Number(/[A-Za-z0-9+/]/.test(String.fromCharCode(code))),
);
const PAD = 0x3d;

function isBase64(bytes: Buffer, start: number, end: number): boolean {
  let last = end;
  while (last > end - 2 && bytes[last - 1] === PAD) last -= 1;
  for (let at = start; at < last; at++) if (BASE64[bytes[at] ?? 0] !== 1) return false;
  return true;
}
