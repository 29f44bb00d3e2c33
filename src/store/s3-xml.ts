/**
 * Owns the reading of the few elements of S3's answers that the service needs.
 * It must never be given a document of a user: it reads the flat XML of an object store alone.
 */

/** The text of every element of that name. */
export function elementsOf(xml: string, name: string): string[] {
  const found = xml.matchAll(new RegExp(`<${name}>([\\s\\S]*?)</${name}>`, 'g'));
  return [...found].map((match) => unescapedXml(match[1] ?? ''));
}

/** The text of the first one; null for none. */
export function elementOf(xml: string, name: string): string | null {
  return elementsOf(xml, name)[0] ?? null;
}

const named: Readonly<Record<string, string>> = {
  amp: '&',
  lt: '<',
  gt: '>',
  quot: '"',
  apos: "'",
};

export function unescapedXml(text: string): string {
  return text.replace(/&(?:(\w+)|#(\d+)|#x([0-9a-f]+));/gi, (all, name, decimal, hex) => {
    if (name !== undefined) return named[name] ?? all;
    return String.fromCodePoint(decimal === undefined ? Number.parseInt(hex, 16) : Number(decimal));
  });
}
