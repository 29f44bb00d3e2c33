/**
 * Owns the cutting of a long text for who turns it into bytes: a copy of the whole would cost as much memory again.
 * It must never cut between the two halves of a character.
 */

const SLICE_LENGTH = 64 * 1024;

/** In their order, together the text. One that is short is its own slice. */
export function* textSlices(text: string): Generator<string, void> {
  for (let at = 0; at < text.length; ) {
    const end = at + SLICE_LENGTH;
    const next = isHighSurrogate(text.charCodeAt(end - 1)) ? end - 1 : end;
    yield at === 0 && next >= text.length ? text : text.slice(at, next);
    at = next;
  }
}

function isHighSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdbff;
}
