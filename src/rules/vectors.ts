/**
 * Owns what is done with a vector on its way out, and what an input of a model for vectors is made of.
 * It must stay pure: it neither counts nor encodes.
 */
import { ApiError } from '../errors.js';
import type { PairForm } from '../plugin/contract.js';

/** Shortened to its first numbers, then brought to length 1. @throws ApiError for a vector that is none. */
export function finishedVector(vector: Float32Array, dimensions: number | null): Float32Array {
  const part = vector.slice(0, dimensions ?? vector.length);
  let sum = 0;
  for (const number of part) sum += number * number;
  if (!Number.isFinite(sum)) {
    throw new ApiError('server', { error: 'the model made a vector that holds no numbers' });
  }
  const length = Math.sqrt(sum);
  return length === 0 ? part : part.map((number) => number / length);
}

/** Of a pair: ids, or pieces of one text between which the document stands. */
export type PairPart = readonly number[] | { readonly pieces: readonly string[] };

/** What a query makes of the form. @param special tokens that a template may hold; in a client's text they are text. */
export function pairParts(
  form: PairForm,
  query: string,
  special: Readonly<Record<string, number>>,
): readonly PairPart[] {
  if (form.type === 'template') return templateParts(form.text, query, special);
  const { before, between, after } = form;
  return [before, { pieces: [query] }, between, { pieces: ['', ''] }, after];
}

function templateParts(
  text: string,
  query: string,
  special: Readonly<Record<string, number>>,
): PairPart[] {
  const names = Object.keys(special).filter((name) => name !== '' && text.includes(name));
  const longestFirst = names.sort((a, b) => b.length - a.length);
  const escaped = longestFirst.map((name) => name.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&'));
  const cut = escaped.length === 0 ? [text] : text.split(new RegExp(`(${escaped.join('|')})`));
  return cut
    .filter((part) => part !== '')
    .map((part) => {
      const id = Object.hasOwn(special, part) ? special[part] : undefined;
      if (id !== undefined) return [id];
      return {
        pieces: part.split('{document}').map((each) => each.replaceAll('{query}', () => query)),
      };
    });
}
