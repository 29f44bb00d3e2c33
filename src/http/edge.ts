/**
 * Owns what an exchange needs of its server, in words, so that neither must know the other's insides.
 * It must never hold code.
 */
import type { Clock } from '../clock.js';
import type { BodyBudget } from './body.js';
import type { Exchange } from './exchange.js';

/** What the server lends to its exchanges. */
export interface Edge {
  readonly clock: Clock;
  readonly bodies: BodyBudget;
  /** True once the server drains: connections end with their current answer. */
  readonly closing: boolean;
  finished(exchange: Exchange): void;
  /** A failure with nobody left to tell. */
  failed(error: unknown, exchange: Exchange): void;
}
