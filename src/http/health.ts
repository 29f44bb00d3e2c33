/**
 * Owns the routes that answer without a key: health, readiness, and the description of the API.
 * It must never tell anything of an account.
 */
import { ApiError } from '../errors.js';
import type { Exchange } from './exchange.js';
import { type Route, route } from './router.js';

/** Of the engines of all models. */
export interface EngineHealth {
  readonly answering: number;
  readonly all: number;
}

export function openRoutes(openApi: object, engines: () => EngineHealth): Route[] {
  const health = JSON.stringify({ status: 'ok' });
  const ready = (exchange: Exchange) => {
    const { answering, all } = engines();
    if (answering === 0) throw new ApiError('unavailable', { error: NONE }, { retryAfterMs: 1000 });
    exchange.reply(200, JSON.stringify({ status: 'ok', engines: { answering, all } }));
  };
  const document = JSON.stringify(openApi);
  return [
    route('GET', '/health', (exchange) => {
      if (isDeep(exchange.query)) ready(exchange);
      else exchange.reply(200, health);
    }),
    route('GET', '/ready', ready),
    route('GET', '/openapi.json', (exchange) => exchange.reply(200, document)),
  ];
}

const NONE = 'no engine answers';

const isDeep = (query: string) => new URLSearchParams(query).get('deep') === '1';
