/**
 * Owns the routes that answer without a key: health, and the description of the API.
 * It must never tell anything of an account.
 */
import { type Route, route } from './router.js';

export function openRoutes(openApi: object): Route[] {
  const health = JSON.stringify({ status: 'ok' });
  const document = JSON.stringify(openApi);
  return [
    route('GET', '/health', (exchange) => exchange.reply(200, health)),
    route('GET', '/openapi.json', (exchange) => exchange.reply(200, document)),
  ];
}
