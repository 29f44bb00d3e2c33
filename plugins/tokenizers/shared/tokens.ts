/**
 * Owns the packed form of many byte strings, in which vocabularies and merges are kept.
 * It must never hold one object for each of them: vocabularies have hundreds of thousands.
 */
import type { Vocabulary } from 'preface/plugin';

/** A byte outside every token: it is dropped, as the reference encoder does. */
export const NO_ID = 0xff_ff_ff_ff;

export function packTokens(tokens: readonly Uint8Array[]): Vocabulary {
  const offsets = new Uint32Array(tokens.length + 1);
  tokens.forEach((token, id) => {
    offsets[id + 1] = (offsets[id] ?? 0) + token.length;
  });
  const bytes = new Uint8Array(offsets.at(-1) ?? 0);
  tokens.forEach((token, id) => {
    bytes.set(token, offsets[id]);
  });
  return { bytes, offsets };
}

/** The same of texts, without an object for each. */
export function packTexts(texts: readonly string[]): Vocabulary {
  const offsets = new Uint32Array(texts.length + 1);
  const units = texts.reduce((sum, { length }) => sum + length, 0);
  // A unit has three bytes at most.
  const bytes = Buffer.allocUnsafeSlow(units * 3);
  let end = 0;
  for (const [id, text] of texts.entries()) {
    end += bytes.write(text, end);
    offsets[id + 1] = end;
  }
  return { bytes: Uint8Array.from(bytes.subarray(0, end)), offsets };
}
