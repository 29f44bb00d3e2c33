/**
 * Owns grammars of numbers between bounds.
 * It must never accept a number outside them; numbers inside that nobody writes may be left out.
 */
import { SchemaError } from './cost.js';
import type { Rules } from './rules.js';

export interface Bounds {
  readonly minimum: number | null;
  readonly maximum: number | null;
  readonly aboveMinimum: boolean;
  readonly belowMaximum: boolean;
}

/** Sixteen digits: more are not safe in JSON numbers. */
const MOST = 10n ** 16n - 1n;

export function numberRule(rules: Rules, bounds: Bounds, integer: boolean): string {
  const { minimum, maximum } = bounds;
  if (minimum === null && maximum === null) return integer ? 'integer' : 'number';
  const parts = integer ? integerParts(bounds) : decimalParts(bounds);
  if (parts.length === 0) throw new SchemaError('minimum and maximum leave no number between them');
  return rules.either(parts);
}

function integerParts(bounds: Bounds): string[] {
  const { minimum, maximum, aboveMinimum, belowMaximum } = bounds;
  let low = minimum === null ? -MOST : BigInt(Math.ceil(minimum));
  let high = maximum === null ? MOST : BigInt(Math.floor(maximum));
  if (aboveMinimum && minimum !== null && Number.isInteger(minimum)) low += 1n;
  if (belowMaximum && maximum !== null && Number.isInteger(maximum)) high -= 1n;
  const parts: string[] = [];
  if (low < 0n) parts.push(...prefixed('"-" ', digits(max(1n, -high), min(-low, MOST))));
  if (high >= 0n) parts.push(...digits(max(0n, low), min(high, MOST)));
  return parts;
}

function decimalParts(bounds: Bounds): string[] {
  const { minimum, maximum, aboveMinimum, belowMaximum } = bounds;
  for (const bound of [minimum, maximum]) {
    if (bound !== null && !Number.isInteger(bound)) {
      throw new SchemaError(`minimum and maximum of a number must be whole here, not ${bound}`);
    }
  }
  const low = minimum === null ? -MOST : BigInt(minimum);
  const high = maximum === null ? MOST : BigInt(maximum);
  const parts: string[] = [];
  if (low < 0n) {
    const least = high < 0n ? -high : 0n;
    const open = high <= 0n && belowMaximum;
    parts.push(...prefixed('"-" ', magnitudes(least, -low, open, aboveMinimum)));
  }
  if (high >= 0n) {
    const least = max(0n, low);
    const open = low >= 0n && aboveMinimum;
    parts.push(...magnitudes(least, high, open, belowMaximum));
  }
  return parts;
}

/** Decimals without sign from `low` to `high`, either of them left out when open. */
function magnitudes(low: bigint, high: bigint, openLow: boolean, openHigh: boolean): string[] {
  const parts: string[] = [];
  const start = openLow ? low + 1n : low;
  if (openLow && low < high) parts.push(`"${low}" "." [0-9]{0,15} [1-9]`);
  if (start < high) parts.push(...digits(start, high - 1n).map((whole) => `${whole} fraction?`));
  if (!openHigh && high >= start) parts.push(`"${high}" ( "." "0"{1,16} )?`);
  return parts;
}

function prefixed(prefix: string, bodies: readonly string[]): string[] {
  return bodies.map((body) => prefix + body);
}

/** Whole numbers from `low` to `high`, by their lengths. */
function digits(low: bigint, high: bigint): string[] {
  const parts: string[] = [];
  for (let length = `${low}`.length; length <= `${high}`.length; length++) {
    const from = length === 1 ? 0n : 10n ** BigInt(length - 1);
    const a = max(low, from);
    const b = min(high, 10n ** BigInt(length) - 1n);
    if (a <= b) parts.push(...between(`${a}`, `${b}`));
  }
  return parts;
}

/** Numbers of one length between two of that length. */
function between(low: string, high: string): string[] {
  if (low === '') return [''];
  const [a = '0', b = '0'] = [low[0], high[0]];
  const [restLow, restHigh] = [low.slice(1), high.slice(1)];
  const nines = '9'.repeat(restLow.length);
  const zeros = '0'.repeat(restLow.length);
  if (restLow === zeros && restHigh === nines)
    return [`${oneOf(a, b)}${anyDigits(restLow.length)}`];
  if (a === b) return prefixed(`"${a}" `, between(restLow, restHigh));
  const parts = prefixed(`"${a}" `, between(restLow, nines));
  if (Number(b) - Number(a) > 1) {
    parts.push(oneOf(`${Number(a) + 1}`, `${Number(b) - 1}`) + anyDigits(restLow.length));
  }
  return [...parts, ...prefixed(`"${b}" `, between(zeros, restHigh))];
}

function oneOf(a: string, b: string): string {
  return a === b ? `"${a}"` : `[${a}-${b}]`;
}

function anyDigits(count: number): string {
  return count === 0 ? '' : ` [0-9]{${count}}`;
}

function max(a: bigint, b: bigint): bigint {
  return a > b ? a : b;
}

function min(a: bigint, b: bigint): bigint {
  return a < b ? a : b;
}
