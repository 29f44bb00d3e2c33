/**
 * Owns how often and in which form a picture is tried, and which try is its text, by library and program alike.
 * It must never take for text what is only texture.
 */
import type { LinePlace, PictureToRead } from 'preface/plugin';
import { NO_TEXT, type PlacedText } from '../shared/placed.js';
import { strangeShare } from '../shared/plausible.js';
import { mirroredBack, placesOf, turnedBack } from './lines.js';
import type { GreyPicture } from './picture.js';
import { mirrored, runsSideways, type Turn, turned } from './turn.js';

/** Lines as they stand in the picture, in its pixels; empty where no text is found. */
export interface Recognized extends PlacedText {
  /** Mean confidence in its words, 0…100. */
  readonly score: number;
}

export type Layout = PictureToRead['layout'];

export interface Attempt extends Recognized {
  /** Share of the text that is no word. */
  readonly strange: number;
}

/** @param level makes lines that lie askew level first. */
export type Pass = (picture: GreyPicture, layout: Layout, level: boolean) => Promise<Attempt>;

export const NOTHING: Recognized = { ...NO_TEXT, score: 0 };
const NO_ATTEMPT: Attempt = { ...NOTHING, strange: 1 };

/** Mean confidence (0…100) below which "text" is only texture: photos reach 0…35, bad scans about 60. */
const CONFIDENCE_MIN = 40;
/** Below this, what looks like no words is none: letters on their head and on their side reach it. */
const CONFIDENCE_POOR = 65;
/** From here on a picture is upright. */
const CONFIDENCE_GOOD = 75;
/** As a share of a text, of what is no word: more is no text of a poor picture. */
const STRANGE_MAX = 0.5;
const STRANGE_GOOD = 0.3;

/** @param turns where it may lie on its side, on its head or in a mirror. */
export async function bestOf(
  pass: Pass,
  picture: GreyPicture,
  turns: boolean,
): Promise<Recognized> {
  const best = turns ? await bestTurn(pass, picture) : await upright(pass, picture, false);
  if (!isText(best)) return NOTHING;
  const { text, lines, score } = best;
  return { text, lines, score };
}

/** The likelier directions first; a mirror shows signs that are much like letters, so a poor text may be one of its. */
async function bestTurn(pass: Pass, picture: GreyPicture): Promise<Attempt> {
  const isSideways = runsSideways(picture);
  const order: Turn[] = isSideways ? [90, 270, 0, 180] : [0, 180, 90, 270];
  const best = await firstGood(pass, picture, order);
  if (isGood(best) || !isText(best)) return best;
  const seen = await firstGood(pass, mirrored(picture), order.slice(0, 2));
  if (!isGood(seen)) return best;
  return { ...seen, lines: seen.lines.map((line) => line && mirroredBack(line, picture)) };
}

/** The best where none is good. */
async function firstGood(
  pass: Pass,
  picture: GreyPicture,
  order: readonly Turn[],
): Promise<Attempt> {
  let best: Attempt | null = null;
  for (const turn of order) {
    const attempt = await upright(pass, turned(picture, turn), true);
    if (best === null || worthOf(attempt) > worthOf(best)) {
      const lines = attempt.lines.map((line) => line && turnedBack(line, picture, turn));
      best = { ...attempt, lines };
    }
    if (isGood(best)) break;
  }
  return best ?? NO_ATTEMPT;
}

async function upright(pass: Pass, picture: GreyPicture, level: boolean): Promise<Attempt> {
  const page = await pass(picture, 'page', level);
  // A single word has no page layout to analyse.
  if (isText(page) || !isSmall(picture)) return page;
  return await pass(picture, 'block', level);
}

export interface Found {
  readonly text: string;
  /** Lines with words, in their order. */
  readonly found: readonly LinePlace[];
  readonly score: number;
}

/** @param radians by which the picture was levelled, clockwise. */
export function attemptOf(
  { text: said, found, score }: Found,
  { picture, radians }: { readonly picture: GreyPicture; readonly radians: number },
): Attempt {
  const text = tidyLines(said);
  const lines = placesOf(text, found, picture, radians);
  return { text, lines, score, strange: strangeShare(text) };
}

function isText({ text, score, strange }: Attempt): boolean {
  if (text === '' || score < CONFIDENCE_MIN) return false;
  return score >= CONFIDENCE_POOR || strange <= STRANGE_MAX;
}

function isGood({ text, score, strange }: Attempt): boolean {
  return text !== '' && score >= CONFIDENCE_GOOD && strange <= STRANGE_GOOD;
}

/** Much sure text is worth more than a little. */
function worthOf({ text, score, strange }: Attempt): number {
  const letters = text.match(/[\p{L}\p{N}]/gu)?.length ?? 0;
  return Math.max(0, score - CONFIDENCE_MIN) * (1 - strange) * Math.sqrt(letters);
}

const SMALL_HEIGHT = 400;

function isSmall({ height }: GreyPicture): boolean {
  return height <= SMALL_HEIGHT;
}

/** Wide gaps separate cells; Han characters are recognised one by one and joined without spaces. */
function tidyLines(text: string): string {
  return text
    .replace(/ {4,}/g, '\t')
    .replace(/(?<=\p{Script=Han}) +(?=\p{Script=Han})/gu, '')
    .replace(/[ \t]+$/gm, '')
    .replace(/\n{3,}/g, '\n\n')
    .trim();
}
