/**
 * Owns the error by which an extractor says why a document cannot be read.
 * It must never carry a path or a name of the server.
 */

export type RefusalCode = 'encrypted' | 'damaged' | 'no_text' | 'unsupported' | 'bound';

/** @param text goes on after the document's name: `it is …`. */
export function refusal(code: RefusalCode, text: string): Error {
  return Object.assign(new Error(text), { code });
}

export function isRefusal(cause: unknown): cause is Error {
  return cause instanceof Error && 'code' in cause && codes.has(String(cause.code));
}

/** A document beyond a bound is refused as a whole, whichever part of it goes beyond. */
export function isBound(cause: unknown): boolean {
  return isRefusal(cause) && 'code' in cause && cause.code === 'bound';
}

const codes = new Set<string>(['encrypted', 'damaged', 'no_text', 'unsupported', 'bound']);

/** A parser's error on malformed bytes means that the document is damaged. */
export function asRefusal(cause: unknown): Error {
  return isRefusal(cause) ? cause : refusal('damaged', 'it is damaged: its content cannot be read');
}

/** Pages whose reader may throw anything. */
export async function* orDamaged<T>(
  pages: () => Iterable<T> | AsyncIterable<T>,
): AsyncGenerator<T> {
  try {
    yield* pages();
  } catch (cause) {
    throw asRefusal(cause);
  }
}

export function locked(): Error {
  return refusal('encrypted', 'it is protected with a password: save it without one');
}
