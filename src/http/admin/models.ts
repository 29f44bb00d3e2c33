/**
 * Owns the admin routes of models: the list, and what of them is in memory.
 * It must never decide whether a model may be unloaded: it asks.
 */
import type { WireAdminModel, WireAdminModelList } from '../../protocol/admin-models.js';
import { type Route, route } from '../router.js';
import type { AdminGate } from './gate.js';

export interface AdminModels {
  list(): Promise<WireAdminModelList>;
  /** Resolves when it is loaded. @throws ApiError `notFound`, `modelAtWork`. */
  load(id: string): Promise<WireAdminModel>;
  /** @throws ApiError as above. */
  unload(id: string): Promise<WireAdminModel>;
}

const MODELS = '/admin/v1/models';

export function adminModelRoutes(gate: AdminGate, models: AdminModels): Route[] {
  return [
    route(
      'GET',
      MODELS,
      gate.guard(() => models.list()),
    ),
    route(
      'POST',
      `${MODELS}/:id/load`,
      gate.guard((_exchange, { id }) => models.load(id)),
    ),
    route(
      'POST',
      `${MODELS}/:id/unload`,
      gate.guard((_exchange, { id }) => models.unload(id)),
    ),
  ];
}
