/**
 * Owns the way into the admin API: the operator's own key, and the bound of what may come with it.
 * It must never let in a user's key, nor anybody for being on this machine.
 */
import { ApiError } from '../../errors.js';
import { limits } from '../../limits/index.js';
import { parseJson } from '../../protocol/json.js';
import type { Exchange } from '../exchange.js';
import type { OperatorKey } from '../operator-key.js';
import type { Handler } from '../router.js';

const bytesMax = limits.adminBodyBytesMax;
// What is shown here is the operator's alone: no proxy and no browser keeps it.
const headers = { 'cache-control': 'no-store' } as const;

/** What it resolves to is answered as JSON. */
export type AdminHandler<Params> = (exchange: Exchange, params: Params) => Promise<object>;

export class AdminGate {
  constructor(readonly key: OperatorKey) {}

  guard<Params>(handle: AdminHandler<Params>): Handler<Params> {
    return async (exchange, params) => {
      this.key.check(exchange);
      if ((exchange.declaredBytes ?? 0) > bytesMax) {
        throw new ApiError('bodyTooLarge', { bytes_max: bytesMax });
      }
      exchange.replyJson(200, await handle(exchange, params), headers);
    };
  }
}

export async function jsonBody(exchange: Exchange): Promise<unknown> {
  return parseJson(await exchange.body(bytesMax));
}
