/**
 * Owns the drawing of SVG whose letters are outlines: its shapes become grey pixels on white.
 * It must never load what a drawing refers to: the renderer has no fonts, files or network.
 */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { ExtractionBounds } from 'preface/plugin';
import { type GreyPicture, shrinkOf } from '../ocr/picture.js';

type Resvg = typeof import('@resvg/resvg-wasm');

/** Pixels of the longer side, tried in turn: one suits small letters, the other a word that fills the drawing. */
export const drawingSides = [2400, 640] as const;

let renderer: Promise<Resvg> | null = null;
let copies = 0;

/** @throws Error with a `code` of `damaged`. */
export async function drawSvg(
  markup: string,
  side: number,
  { pixelsMax }: ExtractionBounds,
): Promise<GreyPicture> {
  renderer ??= open();
  const { Resvg } = await renderer;
  const plain = withoutFilters(markup);
  try {
    const { width, height } = sizeOf(Resvg, plain);
    const scale = side / Math.max(width, height);
    const shrink = shrinkOf(width * scale, height * scale, pixelsMax);
    return draw(Resvg, plain, Math.max(1, Math.floor(width * scale * shrink)));
  } catch (cause) {
    // The renderer may be damaged after a failure, so the next drawing gets a new one.
    if (cause instanceof Error && /^(Runtime|Range)Error$/.test(cause.name)) renderer = null;
    throw Object.assign(new Error('it is a drawing that is too damaged to be drawn', { cause }), {
      code: 'damaged',
    });
  }
}

/** Shadows and blurs add no text, and rendering them can take minutes. */
function withoutFilters(markup: string): string {
  return markup
    .replace(/(?<=\s)filter\s*=\s*(?:"[^"]*"|'[^']*')/g, '')
    .replace(/(?<![\w-])filter\s*:[^;"'}<]*/g, '');
}

function sizeOf(Renderer: Resvg['Resvg'], markup: string): { width: number; height: number } {
  const drawing = new Renderer(markup, { font: { loadSystemFonts: false } });
  const { width, height } = drawing;
  drawing.free();
  if (!(width > 0 && height > 0)) throw new Error('it has no size');
  return { width, height };
}

function draw(Renderer: Resvg['Resvg'], markup: string, width: number): GreyPicture {
  const drawing = new Renderer(markup, {
    font: { loadSystemFonts: false },
    background: '#fff',
    fitTo: { mode: 'width', value: width },
  });
  const image = drawing.render();
  const picture = { width: image.width, height: image.height, pixels: greyOf(image.pixels) };
  image.free();
  drawing.free();
  return picture;
}

/** Red, green and blue as bright as they look. */
function greyOf(rgba: Uint8Array): Uint8Array {
  const grey = new Uint8Array(rgba.length / 4);
  for (let at = 0; at < grey.length; at += 1) {
    const [red = 0, green = 0, blue = 0] = [rgba[4 * at], rgba[4 * at + 1], rgba[4 * at + 2]];
    grey[at] = (red * 77 + green * 150 + blue * 29) >> 8;
  }
  return grey;
}

/** The package starts only once per module address. */
async function open(): Promise<Resvg> {
  copies += 1;
  const resvg =
    copies === 1
      ? await import('@resvg/resvg-wasm')
      : ((await import(`${import.meta.resolve('@resvg/resvg-wasm')}?copy=${copies}`)) as Resvg);
  const program = createRequire(import.meta.url).resolve('@resvg/resvg-wasm/index_bg.wasm');
  await resvg.initWasm(readFileSync(program));
  return resvg;
}
