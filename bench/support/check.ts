/**
 * Owns the short text that stands for what a side answered, so that two rounds, or two runs, can be compared.
 * It must never contain values that differ between equal answers: ids, times, ports.
 */
import { createHash } from 'node:crypto';

export function checkOf(value: unknown): string {
  return createHash('sha256').update(JSON.stringify(value)).digest('hex').slice(0, 12);
}
