/**
 * Owns the routes of batches: `/v1/batches`, one of them, and its cancellation.
 * It must never wait for a batch.
 */
import type { Batches } from '../batches/batches.js';
import { BATCH_PREFIX } from '../batches/records.js';
import { batch, batchList, batchSchema, parseBatchCreate } from '../protocol/batches.js';
import { parseJson } from '../protocol/json.js';
import { parsePageQuery } from '../protocol/page-query.js';
import type { BatchRecord } from '../rules/batch-state.js';
import type { Gate } from './gate.js';
import { type Route, route } from './router.js';

const entrance = { api: 'chat' } as const;

export function batchRoutes(gate: Gate, batches: Batches): Route[] {
  return [
    route(
      'POST',
      '/v1/batches',
      gate.guardFree(entrance, async (exchange, { user, keyId }) => {
        const creation = parseBatchCreate(parseJson(await exchange.body()));
        exchange.replyJson(200, batch(shown(await batches.create(user, keyId, creation))));
      }),
    ),
    route(
      'GET',
      '/v1/batches',
      gate.guardFree(entrance, async (exchange, { user }) => {
        const page = batches.list(
          user,
          parsePageQuery(exchange.query, { item: batchSchema, metadata: false }),
        );
        exchange.replyJson(200, batchList(page.batches.map(shown), page.hasMore));
      }),
    ),
    route(
      'GET',
      '/v1/batches/:id',
      gate.guardFree(entrance, async (exchange, { user }, { id }) => {
        exchange.replyJson(200, batch(shown(batches.get(user, id))));
      }),
    ),
    route(
      'POST',
      '/v1/batches/:id/cancel',
      gate.guardFree(entrance, async (exchange, { user }, { id }) => {
        exchange.replyJson(200, batch(shown(await batches.cancel(user, id))));
      }),
    ),
  ];
}

function shown(record: BatchRecord) {
  return { ...record, id: BATCH_PREFIX + record.id };
}
