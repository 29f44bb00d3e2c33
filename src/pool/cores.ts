/**
 * Owns the choice of the cores that readers of documents run on: all that this process may use but one.
 * It must never name a core that this process may not use.
 */
import { readFileSync } from 'node:fs';

/** For `taskset`, as `1-3,5`; null where there is one core, or where the system does not say. */
export function readerCores(): string | null {
  const allowed = allowedCores();
  return allowed.length < 2 ? null : allowed.slice(1).join(',');
}

/** Their numbers, in order. In a container they need not begin at 0. */
function allowedCores(): number[] {
  const status = statusOfThis();
  const list = /^Cpus_allowed_list:\s*(\S+)$/m.exec(status)?.[1] ?? '';
  return list.split(',').flatMap((range) => {
    const [first = Number.NaN, last = first] = range.split('-').map(Number);
    return Number.isNaN(first)
      ? []
      : Array.from({ length: last - first + 1 }, (_, at) => first + at);
  });
}

function statusOfThis(): string {
  try {
    return readFileSync('/proc/self/status', 'utf8');
  } catch {
    return '';
  }
}
