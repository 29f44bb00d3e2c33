/**
 * Owns the letters in which byte-level BPE writes the bytes of its tokens.
 * It must never take a letter that stands for no byte for one.
 */

/** Byte-level BPE writes each byte as one printable letter: itself where printable, else from U+0100 on. */
const LETTERS = byteLetters();
const BYTE_OF_LETTER = new Map(LETTERS.map((letter, byte) => [letter, byte]));

export function letterOfByte(byte: number): string {
  return LETTERS[byte] ?? '';
}

function byteLetters(): string[] {
  let next = 0x100;
  return Array.from({ length: 256 }, (_, byte) => {
    const printable =
      (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    return String.fromCharCode(printable ? byte : next++);
  });
}

/** null where one of the letters stands for no byte: no text becomes such a token. */
export function bytesOfLetters(text: string): Uint8Array | null {
  const bytes = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at += 1) {
    const byte = BYTE_OF_LETTER.get(text.charAt(at));
    if (byte === undefined) return null;
    bytes[at] = byte;
  }
  return bytes;
}
