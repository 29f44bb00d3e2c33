/**
 * Owns how figures are written for a person.
 * It must never round a small figure to nothing.
 */

/** @param {number} value */
export function count(value) {
  return new Intl.NumberFormat('en', { maximumFractionDigits: 0 }).format(value);
}

/** @param {number} value per second */
export function rate(value) {
  return new Intl.NumberFormat('en', { maximumSignificantDigits: 3 }).format(value);
}

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];

/** @param {number} value */
export function bytes(value) {
  const power = value < 1 ? 0 : Math.min(Math.floor(Math.log2(value) / 10), UNITS.length - 1);
  const digits = power === 0 ? 0 : 1;
  return `${(value / 1024 ** power).toFixed(digits)} ${UNITS[power]}`;
}

/** @param {number} ms */
export function milliseconds(ms) {
  return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(2)} s`;
}

const LONG = [
  ['d', 86_400],
  ['h', 3_600],
  ['min', 60],
  ['s', 1],
];

/** @param {number} seconds */
export function duration(seconds) {
  if (seconds <= 0) return '0 s';
  const [unit = 's', size = 1] = LONG.find(([, each]) => seconds >= Number(each)) ?? [];
  return `${Math.floor(seconds / Number(size))} ${unit}`;
}

/** @param {number} unixS */
export function ago(unixS) {
  return `${duration(Date.now() / 1000 - unixS)} ago`;
}
