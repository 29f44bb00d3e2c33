/**
 * Owns ImageMagick, compiled to WebAssembly: pictures of many formats become upright grey pixels on white.
 * It must never let a document choose its decoder: formats that run commands or open addresses are never passed.
 */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import {
  AlphaAction,
  ColorSpace,
  FilterType,
  type IMagickImage,
  initializeImageMagick,
  MagickColors,
  MagickFormat,
  MagickImageCollection,
  MagickReadSettings,
  ResourceLimits,
} from '@imagemagick/magick-wasm';
import type { ExtractionBounds } from 'preface/plugin';
import { type GreyPicture, shrinkOf } from '../ocr/picture.js';
import type { PictureFormat } from './format.js';

type MagickName = Exclude<PictureFormat, 'svg'>;

const formats: Readonly<Record<MagickName, MagickFormat>> = {
  PNG: MagickFormat.Png,
  JPEG: MagickFormat.Jpeg,
  GIF: MagickFormat.Gif,
  BMP: MagickFormat.Bmp,
  TIFF: MagickFormat.Tiff,
  WEBP: MagickFormat.WebP,
  AVIF: MagickFormat.Avif,
  HEIC: MagickFormat.Heic,
  ICO: MagickFormat.Ico,
  XBM: MagickFormat.Xbm,
};

/** Characters on screenshots are about 10 pixels high; OCR needs 20 or more. */
const SMALL_SIDE = 1600;
const ENLARGE_MAX = 3;

let ready: Promise<void> | undefined;

export class PictureFile {
  private constructor(
    private readonly bytes: Uint8Array,
    private readonly format: MagickName,
    private readonly bounds: ExtractionBounds,
    private readonly frames: readonly Frame[],
  ) {}

  /** In pixels, of the first page. */
  get width(): number {
    return this.frames[0]?.width ?? 0;
  }

  get height(): number {
    return this.frames[0]?.height ?? 0;
  }

  /** The longer side of a page, in pixels. */
  side(index: number): number {
    const { width = 0, height = 0 } = this.frames[index] ?? {};
    return Math.max(width, height);
  }

  get pages(): number {
    return this.frames.length;
  }

  /** Reads headers only. @throws Error with a `code` of `bound` or `damaged`. */
  static async open(
    bytes: Uint8Array,
    format: MagickName,
    bounds: ExtractionBounds,
  ): Promise<PictureFile> {
    ready ??= initializeImageMagick(
      readFileSync(createRequire(import.meta.url).resolve('@imagemagick/magick-wasm/magick.wasm')),
    );
    await ready;
    bound(bounds);
    const frames = guarded(format, bounds, () => framesOf(bytes, format, bounds));
    return new PictureFile(bytes, format, bounds, frames);
  }

  page(index: number): GreyPicture {
    const { bytes, format, bounds } = this;
    return guarded(format, bounds, () => {
      const images = MagickImageCollection.create();
      try {
        images.read(bytes, settingsOf(format, this.frames[index]?.index ?? 0, 1));
        const [image] = images;
        if (image === undefined) throw coded('damaged', 'it holds no picture');
        return greyOf(image, bounds);
      } finally {
        images.dispose();
      }
    });
  }
}

/** A page of a file. */
interface Frame {
  /** Where in the file it is. */
  readonly index: number;
  readonly width: number;
  readonly height: number;
}

/** Bytes for each pixel during the work: input and output, with alpha. */
const PIXEL_BYTES = 8;
/** Below this the library aborts instead of refusing a picture. */
const MEMORY_BYTES_MIN = 64 * 1024 * 1024;

/** ImageMagick's own limits also hold when a header lies; disk as a replacement for memory is switched off. */
function bound({ pixelsMax, pagesMax }: ExtractionBounds): void {
  const bytes = BigInt(Math.max(pixelsMax * PIXEL_BYTES, MEMORY_BYTES_MIN));
  ResourceLimits.area = bytes;
  ResourceLimits.memory = bytes;
  ResourceLimits.disk = 0n;
  ResourceLimits.listLength = BigInt(pagesMax + 1);
}

function framesOf(bytes: Uint8Array, format: MagickName, bounds: ExtractionBounds): Frame[] {
  const images = MagickImageCollection.create();
  try {
    // An animation is read by its first picture; an icon holds one picture in several sizes.
    const all = format === 'TIFF' || format === 'ICO';
    images.ping(bytes, all ? settingsOf(format) : settingsOf(format, 0, 1));
    if (images.length > bounds.pagesMax) {
      throw coded('bound', `it has ${images.length} pages, at most ${bounds.pagesMax} are read`);
    }
    for (const { width, height } of images) checkPixels(width, height, bounds);
    if (images.length === 0) throw coded('damaged', 'it holds no picture');
    const frames = images.map(({ width, height }, index) => ({ index, width, height }));
    return format === 'ICO' ? [largest(frames)] : frames;
  } finally {
    images.dispose();
  }
}

function largest(frames: readonly Frame[]): Frame {
  return frames.reduce((best, each) =>
    each.width * each.height > best.width * best.height ? each : best,
  );
}

function settingsOf(format: MagickName, frame?: number, frames?: number): MagickReadSettings {
  return new MagickReadSettings({
    format: formats[format],
    ...(frame !== undefined && { frameIndex: frame }),
    ...(frames !== undefined && { frameCount: frames }),
  });
}

function greyOf(image: IMagickImage, bounds: ExtractionBounds): GreyPicture {
  checkPixels(image.width, image.height, bounds);
  image.autoOrient();
  image.backgroundColor = MagickColors.White;
  image.alpha(AlphaAction.Remove);
  // Of what is grey it makes the same, in as long as it takes to unpack it.
  if (image.colorSpace !== ColorSpace.Gray) image.grayscale();
  const scale = scaleOf(image.width, image.height, bounds.pixelsMax);
  if (scale !== 1) {
    const width = Math.max(1, Math.floor(image.width * scale));
    const height = Math.max(1, Math.floor(image.height * scale));
    // The best enlarging filter takes seconds on a large picture; the plain one is as good there.
    image.resize(width, height, scale < 1 ? FilterType.Box : FilterType.Lanczos);
  }
  const { width, height } = image;
  const pixels = image.getPixels((all) => all.toByteArray(0, 0, width, height, 'R'));
  if (pixels === null) throw coded('damaged', 'its pixels cannot be read');
  // The bytes may lie in the decoder's own memory, which the next picture overwrites.
  return { width, height, pixels: new Uint8Array(pixels) };
}

function scaleOf(width: number, height: number, pixelsMax: number): number {
  const side = Math.max(width, height);
  if (side >= SMALL_SIDE) return shrinkOf(width, height, pixelsMax);
  return Math.min(ENLARGE_MAX, SMALL_SIDE / side);
}

function checkPixels(width: number, height: number, { pixelsMax }: ExtractionBounds): void {
  if (width * height <= pixelsMax) return;
  throw coded('bound', `it has ${width} × ${height} pixels, at most ${pixelsMax} are read`);
}

/** Warnings of the library count as errors: a picture that is only partly readable is refused. */
function guarded<Result>(format: string, bounds: ExtractionBounds, work: () => Result): Result {
  try {
    return work();
  } catch (cause) {
    if (cause instanceof Error && 'code' in cause) throw cause;
    const message = cause instanceof Error ? cause.message : String(cause);
    if (/limit|exhausted|too large|exceeds/i.test(message)) {
      throw coded('bound', `it takes more than ${bounds.pixelsMax} pixels, or their memory`, cause);
    }
    throw coded('damaged', `it is no ${format}, or too damaged to be read`, cause);
  }
}

function coded(code: string, message: string, cause?: unknown): Error {
  return Object.assign(new Error(message, { cause }), { code });
}
