/**
 * Owns the entrance of the admin API: the operator's key, and the bound on bodies.
 * It must never accept a user's key, nor a request for coming from this machine.
 */
import { ApiError } from '../../errors.js';
import { limits } from '../../limits/index.js';
import { parseJson } from '../../protocol/json.js';
import type { Exchange } from '../exchange.js';
import type { OperatorKey } from '../operator-key.js';
import type { Handler } from '../router.js';

const bytesMax = limits.adminBodyBytesMax;
// No proxy and no browser may keep these answers.
const headers = { 'cache-control': 'no-store' } as const;

/** Its result is the answer, as JSON. */
export type AdminHandler<Params> = (exchange: Exchange, params: Params) => Promise<object>;

export class AdminGate {
  constructor(readonly key: OperatorKey) {}

  guard<Params>(handle: AdminHandler<Params>): Handler<Params> {
    return async (exchange, params) => {
      if (!this.key.exist) throw new ApiError('notFound', { kind: 'route', id: exchange.path });
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
