/**
 * Owns what an image costs in tokens, and the reading of its pixel size from the first bytes of a data URL.
 * It must never decode pixels, fetch anything, or count by the length of the base64 text.
 */
import { invalid } from '../errors.js';
import { imageIsWhole, imageSizeOf } from './image-header.js';

export interface ImageSize {
  readonly width: number;
  readonly height: number;
}

/** A patch is this many pixels wide and high: 14-pixel patches of the vision encoder, merged 2 × 2. */
export const PATCH_PIXELS = 28;
/** A larger image is scaled down, with its proportions, until its patches fit: 4096 of them. */
export const IMAGE_TOKENS_MAX = 4096;
/** No real image has longer sides, and the arithmetic would lose precision. */
const SIDE_PIXELS_MAX = 65_535;

/**
 * The one formula: an image costs one token for each 28 × 28 patch that it touches,
 * `ceil(width / 28) · ceil(height / 28)`, after it was scaled down to at most 4096 patches. This is the
 * patch arithmetic published for vision models with 14-pixel patches and a 2 × 2 merge.
 */
export function imageTokens({ width, height }: ImageSize): number {
  const scale = Math.min(1, Math.sqrt(IMAGE_TOKENS_MAX / patches(width, height)));
  const scaled = scale === 1 ? patches(width, height) : flooredPatches(width, height, scale);
  return Math.min(scaled, IMAGE_TOKENS_MAX);
}

/** @throws ApiError that names `param` when the URL holds no image of a known kind. */
export function imageSizeOfDataUrl(url: string, param: string): ImageSize {
  const found = /^data:([^;,]{1,64})?(?:;[^;,]{1,64}){0,8};base64,/i.exec(url);
  if (found === null) {
    throw invalid(`${param} must be a data URL with base64 content, got ${shown(url)}`, param);
  }
  const size = imageSizeOf(headBytes(url, found[0].length));
  if (size === null) {
    const said = found[1] ?? 'no type';
    throw invalid(
      `${param} must hold a png, jpeg, webp, gif or bmp image; its bytes are none (declared: ${said})`,
      param,
    );
  }
  if (size.width < 1 || size.height < 1 || Math.max(size.width, size.height) > SIDE_PIXELS_MAX) {
    const got = `${size.width} × ${size.height}`;
    throw invalid(
      `${param} must be 1 to ${SIDE_PIXELS_MAX} pixels wide and high, got ${got}`,
      param,
    );
  }
  return size;
}

/** What is done with images: counted by their size, looked at as a whole, or refused for this reason. */
export type Sight = 'counts' | 'sees' | Blind;

/** Why no image is taken. It may be made when it is read: few chats have one. */
export interface Blind {
  readonly blind: string;
}

/** For `chatPrompt`. */
export function imageReader(sight: Sight) {
  if (typeof sight === 'object') return sight;
  return sight === 'sees' ? wholeImageSizeOfDataUrl : imageSizeOfDataUrl;
}

/** The same of an image that a model will look at. @throws ApiError also where its bytes end before it does. */
export function wholeImageSizeOfDataUrl(url: string, param: string): ImageSize {
  const size = imageSizeOfDataUrl(url, param);
  const start = url.indexOf(',') + 1;
  if ((url.length - start) % 4 === 1 || !BASE64.test(url.slice(start))) {
    throw invalid(`${param} must hold base64 after its comma, and has other characters`, param);
  }
  const bytes = Math.floor(((url.length - start) * 3) / 4);
  const tail = Buffer.from(url.slice(tailFrom(url, start)), 'base64');
  if (!imageIsWhole(headBytes(url, start), tail, bytes)) {
    throw invalid(`${param} must hold a whole image; its ${bytes} bytes end before it does`, param);
  }
  return size;
}

const BASE64 = /^[A-Za-z0-9+/]*={0,2}$/;
/** Some writers put a few bytes behind an image. */
const TAIL_LENGTH = 4_096;

/** On a border of four characters, which are three bytes. */
function tailFrom(url: string, start: number): number {
  const from = Math.max(0, url.length - start - TAIL_LENGTH);
  return start + from - (from % 4);
}

function patches(width: number, height: number): number {
  return Math.ceil(width / PATCH_PIXELS) * Math.ceil(height / PATCH_PIXELS);
}

/** Scaling rounds down to whole patches, and leaves at least one in each direction. */
function flooredPatches(width: number, height: number, scale: number): number {
  const across = Math.max(1, Math.floor((width * scale) / PATCH_PIXELS));
  return across * Math.max(1, Math.floor((height * scale) / PATCH_PIXELS));
}

/** A JPEG may have all metadata of a photograph before its size; other formats need 32 bytes at most. */
const HEAD_BYTES_MAX = 512 * 1024;

function headBytes(url: string, start: number): Buffer {
  const end = start + Math.ceil(HEAD_BYTES_MAX / 3) * 4;
  return Buffer.from(url.slice(start, end), 'base64');
}

function shown(url: string): string {
  return JSON.stringify(url.length > 40 ? `${url.slice(0, 40)}…` : url);
}
