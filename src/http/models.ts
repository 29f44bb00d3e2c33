/**
 * Owns `GET /v1/models` and `GET /v1/models/{id}`.
 * It must never list a model that would not answer.
 */
import type { Catalog } from '../chat/catalog.js';
import { ApiError } from '../errors.js';
import { type ModelRecord, model, modelList } from '../protocol/models.js';
import type { Gate } from './gate.js';
import { type Route, route } from './router.js';

const OWNED_BY = 'preface';

/** @param createdS when this service began to offer its models. */
export function modelRoutes(gate: Gate, catalog: Catalog, createdS: number): Route[] {
  const records: ModelRecord[] = catalog.list().map(({ id, window, vision }) => ({
    id,
    createdS,
    ownedBy: OWNED_BY,
    windowTokens: window,
    vision,
  }));
  // The models of a running service do not change, so their bodies are made once.
  const list = JSON.stringify(modelList(records));
  const bodies = new Map(records.map((record) => [record.id, JSON.stringify(model(record))]));
  return [
    route(
      'GET',
      '/v1/models',
      gate.guardFree({ api: null }, async (exchange, { policy }) => {
        const open = records.filter(({ id }) => catalog.isOpen(policy, id));
        exchange.reply(200, policy.models === null ? list : JSON.stringify(modelList(open)));
      }),
    ),
    route(
      'GET',
      '/v1/models/:id',
      gate.guardFree({ api: null }, async (exchange, { policy }, { id }) => {
        const body = catalog.isOpen(policy, id) ? bodies.get(id) : undefined;
        if (body === undefined) {
          throw new ApiError('modelNotFound', {}, { param: 'model', code: id });
        }
        exchange.reply(200, body);
      }),
    ),
  ];
}
