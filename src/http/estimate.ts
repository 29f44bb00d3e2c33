/**
 * Owns `POST /v1/tokenizers/estimate-token-count`.
 * It must never count by itself: an estimate is the count by which a chat is admitted.
 */
import type { EstimateService } from '../chat/estimate.js';
import type { Parser } from '../parsing/parser.js';
import { estimate } from '../protocol/estimate.js';
import type { Gate } from './gate.js';
import { type Route, route } from './router.js';

export function estimateRoutes(gate: Gate, parser: Parser, service: EstimateService): Route[] {
  const handle = gate.guardFree({ api: 'estimate' }, async (exchange, { user, policy }) => {
    const { model, talk } = await parser.estimate(user, await exchange.body());
    exchange.hold(talk.heldBytes);
    exchange.replyJson(200, estimate(await service.count({ user, policy }, model, talk)));
  });
  return [route('POST', '/v1/tokenizers/estimate-token-count', handle)];
}
