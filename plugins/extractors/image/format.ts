/**
 * Owns the detection of picture formats by their first bytes.
 * It must never trust a file name alone, because the detected format decides which decoder runs.
 */
import { extname } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { encodingOfXml } from '../markup/walk.js';
import { decode } from '../shared/decoder.js';

/** The decoder's own names of formats; `svg` is markup and has its own reader. */
export type PictureFormat =
  | 'PNG'
  | 'JPEG'
  | 'GIF'
  | 'BMP'
  | 'TIFF'
  | 'WEBP'
  | 'AVIF'
  | 'HEIC'
  | 'ICO'
  | 'XBM'
  | 'svg';

export interface PictureKind {
  readonly format: PictureFormat;
  readonly fileType: string;
}

/** Magic bytes at the start as Latin-1; some formats need a second match at an offset. */
const magics: readonly (readonly [head: string, then: string, PictureFormat, fileType: string])[] =
  [
    ['\x89PNG\r\n\x1a\n', '', 'PNG', 'image/png'],
    ['\xff\xd8\xff', '', 'JPEG', 'image/jpeg'],
    ['GIF87a', '', 'GIF', 'image/gif'],
    ['GIF89a', '', 'GIF', 'image/gif'],
    ['BM', '', 'BMP', 'image/bmp'],
    ['II*\0', '', 'TIFF', 'image/tiff'],
    ['MM\0*', '', 'TIFF', 'image/tiff'],
    ['RIFF', 'WEBP', 'WEBP', 'image/webp'],
    ['\0\0\x01\0', '', 'ICO', 'image/vnd.microsoft.icon'],
  ];
const THEN_AT = 8;

export function kindOf(bytes: Uint8Array): PictureKind | null {
  const head = Buffer.from(bytes.subarray(0, 1024)).toString('latin1');
  for (const [begin, then, format, fileType] of magics) {
    if (!head.startsWith(begin) || !head.startsWith(then, THEN_AT)) continue;
    if (format === 'BMP' && !isBmp(bytes)) continue;
    if (format === 'PNG' && head.includes('acTL')) return { format, fileType: 'image/apng' };
    return { format, fileType };
  }
  const brands = brandsOf(head);
  if (/avi[fs]/.test(brands)) return { format: 'AVIF', fileType: 'image/avif' };
  if (/^(?:hei[cfmsx]|hev[cmsx]|mif1|msf1)/.test(brands)) {
    return { format: 'HEIC', fileType: 'image/heic' };
  }
  return isXbm(head) ? { format: 'XBM', fileType: 'image/x-xbitmap' } : null;
}

/** What the file calls itself, and what else it is: both formats have the same container. */
function brandsOf(head: string): string {
  if (!head.startsWith('ftyp', 4)) return '';
  const length = Buffer.from(head.slice(0, 4), 'latin1').readUInt32BE();
  return head.slice(8, 12) + head.slice(16, Math.min(length, BRANDS_END));
}

const BRANDS_END = 128;

/** Many texts begin with these two letters, so the size of the second header is checked too. */
function isBmp(bytes: Uint8Array): boolean {
  const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return bytes.length >= 26 && [12, 40, 52, 56, 64, 108, 124].includes(view.readUInt32LE(14));
}

/** It is C source text. */
function isXbm(head: string): boolean {
  return /^\s*(?:\/\*[\s\S]*?\*\/\s*)?#define\s+\w*width\s+\d+\s+#define\s+\w*height\s+\d+/.test(
    head,
  );
}

// --------------------------------------------------------------------- markup

const SVG_BYTES_SEARCHED = 4096;

/** Markup with `svg` as its first element; a web page that contains a drawing does not count. */
export function isSvg(bytes: Uint8Array): boolean {
  let text = decodeMarkup(bytes.subarray(0, SVG_BYTES_SEARCHED)).trimStart();
  while (/^<[?!]/.test(text)) {
    const end = text.startsWith('<!--') ? text.indexOf('-->') + 2 : declarationEnd(text);
    if (end < 2) return false;
    text = text.slice(end + 1).trimStart();
  }
  return /^<(?:[\w-]+:)?svg[\s/>]/.test(text);
}

/** A document type may hold declarations of its own. */
function declarationEnd(text: string): number {
  const end = text.indexOf('>');
  const inner = text.indexOf('[');
  if (inner === -1 || inner > end) return end;
  const close = text.indexOf(']', inner);
  return close === -1 ? -1 : text.indexOf('>', close);
}

export function isSvgz(bytes: Uint8Array, filename: string): boolean {
  return bytes[0] === 0x1f && bytes[1] === 0x8b && extname(filename).toLowerCase() === '.svgz';
}

/** @throws Error with a `code` of `bound` or `damaged`. */
export function unpackSvgz(bytes: Uint8Array, bytesMax: number): Uint8Array {
  try {
    return gunzipSync(bytes, { maxOutputLength: bytesMax });
  } catch (cause) {
    const isLarge =
      cause instanceof Error && 'code' in cause && cause.code === 'ERR_BUFFER_TOO_LARGE';
    const message = isLarge
      ? `unpacked it has more than ${bytesMax} bytes`
      : 'it cannot be unpacked';
    throw Object.assign(new Error(message, { cause }), { code: isLarge ? 'bound' : 'damaged' });
  }
}

export function decodeMarkup(bytes: Uint8Array): string {
  return decode(bytes, encodingOfXml(bytes));
}
