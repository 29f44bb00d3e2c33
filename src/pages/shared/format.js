/**
 * Owns how figures and times are written for a person.
 * It must never round a small figure to nothing.
 */

/** @param {number} value */
export function count(value) {
  return new Intl.NumberFormat('en', { maximumFractionDigits: 0 }).format(value);
}

/** @param {number} value per second, or any other where three digits tell enough */
export function rate(value) {
  return new Intl.NumberFormat('en', { maximumSignificantDigits: 3 }).format(value);
}

/** @param {number} value 0…1 */
export function share(value) {
  return `${rate(value * 100)} %`;
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
  if (ms < 10) return `${rate(ms)} ms`;
  return ms < 1000 ? `${Math.round(ms)} ms` : `${rate(ms / 1000)} s`;
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

/** In the reader's own zone, in the same order everywhere. @param {number} unixS */
export function time(unixS) {
  return new Date(unixS * 1000).toLocaleTimeString('en-GB');
}

/** @param {number} unixS */
export function dateTime(unixS) {
  const date = new Date(unixS * 1000);
  const two = (/** @type {number} */ part) => String(part).padStart(2, '0');
  const day = [date.getFullYear(), two(date.getMonth() + 1), two(date.getDate())].join('-');
  return `${day} ${time(unixS)}`;
}
