/**
 * Owns turning bytes of the code pages of Windows into text.
 * It must never fail: an unknown code page is read as windows-1252.
 */
import { TextDecoder } from 'node:util';

const UTF8 = 65001;
const WESTERN = 1252;

/** Where windows-1252 is not Latin-1, from 0x80. Node's own decoder confuses the two. */
const western = '€\u0081‚ƒ„…†‡ˆ‰Š‹Œ\u008dŽ\u008f\u0090‘’“”•–—˜™š›œ\u009džŸ';

const labels: Readonly<Record<number, string>> = {
  [UTF8]: 'utf-8',
  932: 'shift_jis',
  936: 'gbk',
  949: 'euc-kr',
  950: 'big5',
  1200: 'utf-16le',
  10000: 'macintosh',
  20866: 'koi8-r',
};

export function decodeCodePage(bytes: Uint8Array, codePage: number): string {
  if (codePage === WESTERN) return fromLatin(Buffer.from(bytes).toString('latin1'));
  try {
    return new TextDecoder(labels[codePage] ?? `windows-${codePage}`).decode(bytes);
  } catch {
    return fromLatin(Buffer.from(bytes).toString('latin1'));
  }
}

/** Text of windows-1252 that was read as Latin-1. */
export function fromLatin(text: string): string {
  return text.replace(/[\u0080-\u009f]/g, (character) => {
    return western[character.charCodeAt(0) - 0x80] ?? character;
  });
}
