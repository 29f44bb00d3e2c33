/**
 * Owns `POST /v1/tokenizers/estimate-token-count`.
 * It must never count by itself: an estimate is the count by which a chat is admitted.
 */
import type { EstimateService } from '../chat/estimate.js';
import { estimate, parseEstimateRequest } from '../protocol/estimate.js';
import { parseJson } from '../protocol/json.js';
import type { Gate } from './gate.js';
import { type Route, route } from './router.js';

export function estimateRoutes(gate: Gate, service: EstimateService): Route[] {
  const handle = gate.guardFree({ api: 'estimate' }, async (exchange, { user, policy }) => {
    const request = parseEstimateRequest(parseJson(await exchange.body()));
    exchange.replyJson(200, estimate(await service.count({ user, policy }, request)));
  });
  return [route('POST', '/v1/tokenizers/estimate-token-count', handle)];
}
