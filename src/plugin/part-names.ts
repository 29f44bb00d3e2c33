/**
 * Owns the names of weights that come in several files: `…-00001-of-00003.gguf` and those beside it.
 * It must never look whether a file is there.
 */

const FIRST = /-00001-of-(\d{5})(?=\.gguf\b)/;

/** @param first name, path or address of the first part, which stands for all. @returns all in order; itself alone where it is whole. */
export function partNames(first: string): readonly string[] {
  const [, count = ''] = FIRST.exec(first) ?? [];
  const names = Array.from({ length: Number(count) }, (_, at) =>
    first.replace(FIRST, `-${String(at + 1).padStart(5, '0')}-of-${count}`),
  );
  return names.length === 0 ? [first] : names;
}
