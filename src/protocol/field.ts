/**
 * Owns how an error names a field and shows what came in it: shortened, printable, never a dump.
 * It must never decide whether a value is allowed.
 */

export type FieldPath = readonly (string | number)[];

const SHOWN_LENGTH_MAX = 40;
const PLAIN_KEY = /^[A-Za-z_][A-Za-z0-9_]*$/;

/** `messages[2].content`; a key that is no plain name is quoted. */
export function fieldName(path: FieldPath): string {
  const name = path.map(fieldStep).join('');
  return name === '' ? 'the body' : name.replace(/^\./, '');
}

/** One step of it, to be put behind a name. */
export function fieldStep(step: string | number): string {
  if (typeof step === 'number') return `[${step}]`;
  return PLAIN_KEY.test(step) ? `.${step}` : `[${quoted(step)}]`;
}

/** What came, in a few words. */
export function shown(value: unknown): string {
  if (value === undefined) return 'nothing';
  if (typeof value === 'string') return quoted(value);
  if (Array.isArray(value)) return value.length === 0 ? 'an empty array' : 'an array';
  if (typeof value === 'object' && value !== null) return 'an object';
  return String(value);
}

/** Single quotes, as the contract's own messages have; control characters and lone surrogates escaped. */
export function quoted(text: string): string {
  const cut = [...text.slice(0, 2 * SHOWN_LENGTH_MAX)].slice(0, SHOWN_LENGTH_MAX).join('');
  const escaped = JSON.stringify(cut).slice(1, -1).replaceAll('\\"', '"');
  return `'${escaped}${cut.length < text.length ? '…' : ''}'`;
}
