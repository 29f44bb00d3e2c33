/**
 * Owns the one form in which pictures go from decoders to character recognition: grey pixels, dark on light.
 * It must never hold more pixels than OCR can use.
 */

/** One byte a pixel, row by row; 255 is white. */
export interface GreyPicture {
  readonly width: number;
  readonly height: number;
  readonly pixels: Uint8Array;
}

/** More pixels do not help: a page at 300 dpi has 9 million, a photo about 12 million. */
export const OCR_PIXELS_MAX = 16 * 1024 * 1024;
/** Tesseract's bound on one side, in pixels. */
const OCR_SIDE_MAX = 32_000;

/** Factor, at most 1, that makes a picture of this size fit. */
export function shrinkOf(width: number, height: number, pixelsMax: number): number {
  const area = Math.sqrt(Math.min(pixelsMax, OCR_PIXELS_MAX) / (width * height));
  return Math.min(1, area, OCR_SIDE_MAX / Math.max(width, height));
}

/** Every printed character has at least this contrast in grey. */
const CONTRAST_MIN = 24;

/** True for an empty page, where OCR would only waste time. */
export function isBlank({ pixels }: GreyPicture): boolean {
  let darkest = 255;
  let lightest = 0;
  for (const pixel of pixels) {
    if (pixel < darkest) darkest = pixel;
    if (pixel > lightest) lightest = pixel;
    if (lightest - darkest >= CONTRAST_MIN) return false;
  }
  return true;
}

/** Encodes the pixels as a simple picture file: a header and the pixels. */
export function pgmOf({ width, height, pixels }: GreyPicture): Uint8Array {
  const header = Buffer.from(`P5\n${width} ${height}\n255\n`, 'latin1');
  const file = new Uint8Array(header.length + pixels.length);
  file.set(header);
  file.set(pixels, header.length);
  return file;
}
