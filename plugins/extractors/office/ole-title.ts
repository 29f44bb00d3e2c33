/**
 * Owns the title that Office kept in a container's summary before 2007.
 * It must never fail: a summary that cannot be read is a document without a title.
 */
import { decodeCodePage } from '../shared/decoder.js';
import { type OleContainer, streamOrNull } from './ole.js';

const TITLE = 2;
const CODE_PAGE = 1;
const PROPERTIES_MAX = 100;
const ANSI_TEXT = 0x1e;
const WIDE_TEXT = 0x1f;
const LATIN = 1252;

export function titleOf(container: OleContainer): string {
  const summary = streamOrNull(container, '\u0005SummaryInformation');
  if (summary === null) return '';
  try {
    return readTitle(summary);
  } catch {
    return '';
  }
}

function readTitle(summary: Buffer): string {
  const set = summary.readUInt32LE(44);
  const count = Math.min(summary.readUInt32LE(set + 4), PROPERTIES_MAX);
  const places = new Map<number, number>();
  for (let index = 0; index < count; index++) {
    const at = set + 8 + index * 8;
    places.set(summary.readUInt32LE(at), set + summary.readUInt32LE(at + 4));
  }
  const title = places.get(TITLE);
  const codePage = places.get(CODE_PAGE);
  if (title === undefined) return '';
  return textAt(
    summary,
    title,
    codePage === undefined ? LATIN : summary.readUInt16LE(codePage + 4),
  );
}

function textAt(summary: Buffer, at: number, codePage: number): string {
  const type = summary.readUInt32LE(at);
  const length = summary.readUInt32LE(at + 4);
  const bytes = summary.subarray(at + 8, at + 8 + (type === WIDE_TEXT ? length * 2 : length));
  if (type !== ANSI_TEXT && type !== WIDE_TEXT) return '';
  const text = type === WIDE_TEXT ? bytes.toString('utf16le') : decodeCodePage(bytes, codePage);
  return text.split('\0')[0] ?? '';
}
