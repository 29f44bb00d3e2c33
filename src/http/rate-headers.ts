/**
 * Owns the headers that tell a client how much of its rates is left.
 * It must never name a rate that is not limited.
 */
import type { RatesLeft } from '../errors.js';

export function rateHeaders({ requests, tokens }: RatesLeft): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const [name, view] of Object.entries({ requests, tokens })) {
    if (view === null) continue;
    headers[`x-ratelimit-limit-${name}`] = String(view.limit);
    headers[`x-ratelimit-remaining-${name}`] = String(view.remaining);
    headers[`x-ratelimit-reset-${name}`] = `${Math.ceil(view.resetMs) / 1000}s`;
  }
  return headers;
}
