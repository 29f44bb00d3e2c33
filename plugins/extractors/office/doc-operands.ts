/**
 * Owns the codes by which a doc says how characters and paragraphs look: each with its operand.
 * It must never read beyond the bytes it is given.
 */

/** Operand length in bytes by the kind of code; kind 6 stores its own length. */
const operandBytes = [1, 1, 2, 4, 2, 2, 0, 3];

/** The operand of each code: a signed number of two bytes or four, or the first byte of any other. */
export function operands(codes: Buffer): Map<number, number> {
  const found = new Map<number, number>();
  for (let at = 0; at + 2 < codes.length; ) {
    const code = codes.readUInt16LE(at);
    at += 2;
    const length = operandBytes[code >> 13] ?? 0;
    const isNumber = (length === 2 || length === 4) && at + length <= codes.length;
    found.set(code, isNumber ? codes.readIntLE(at, length) : (codes[at] ?? 0));
    at += length === 0 ? (codes[at] ?? 0) + 1 : length;
  }
  return found;
}
