/**
 * Owns packages that Office saved as one file of XML: the parts of an archive one after the other.
 * It must never read what a part holds in another form than XML: those are pictures and objects.
 */

/** The types of the parts stand at their beginnings; the main part comes among the first. */
export const FLAT_HEAD_BYTES = 64 * 1024;

const ROOT = /^[^<]{0,16}(?:<\?[^>]{0,400}\?>\s*)*<pkg:package[\s>]/;

export function isFlat(bytes: Uint8Array): boolean {
  return ROOT.test(Buffer.from(bytes.subarray(0, 2048)).toString('latin1'));
}

const PART = Buffer.from('<pkg:part');
const DATA = Buffer.from('<pkg:xmlData');
const END = Buffer.from('</pkg:xmlData>');

/** By name, without the first slash. @returns null for bytes of any other kind. */
export function flatParts(bytes: Uint8Array): Map<string, Buffer> | null {
  if (!isFlat(bytes)) return null;
  const all = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const parts = new Map<string, Buffer>();
  for (let at = all.indexOf(PART); at !== -1; ) {
    const next = all.indexOf(PART, at + PART.length);
    const part = all.subarray(at, next === -1 ? all.length : next);
    const [data, end] = [part.indexOf(DATA), part.lastIndexOf(END)];
    const name = /pkg:name="\/?([^"]{1,500})"/.exec(part.toString('utf8', 0, 2000))?.[1];
    if (name !== undefined && data !== -1 && end > data) {
      parts.set(name, part.subarray(part.indexOf('>', data) + 1, end));
    }
    at = next;
  }
  return parts;
}
