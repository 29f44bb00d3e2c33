/**
 * Owns the headers that tell a client how much of its rates is left.
 * It must never name a rate that is not limited.
 */
import type { RateLeft, RatesLeft } from '../errors.js';

export function rateHeaders({ requests, tokens }: RatesLeft): Record<string, string> {
  const headers: Record<string, string> = {};
  if (requests !== null) add(headers, 'requests', requests);
  if (tokens !== null) add(headers, 'tokens', tokens);
  return headers;
}

function add(headers: Record<string, string>, name: string, view: RateLeft): void {
  headers[`x-ratelimit-limit-${name}`] = String(view.limit);
  headers[`x-ratelimit-remaining-${name}`] = String(view.remaining);
  headers[`x-ratelimit-reset-${name}`] = `${Math.ceil(view.resetMs) / 1000}s`;
}
