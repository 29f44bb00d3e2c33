/**
 * Owns the admin route of the service's own state.
 * It must never collect anything itself: the collector is handed in.
 */
import type { WireServiceStatus } from '../../protocol/admin-status.js';
import { type Route, route } from '../router.js';
import type { AdminGate } from './gate.js';

export type LookAtService = () => Promise<WireServiceStatus>;

export function adminStatusRoutes(gate: AdminGate, look: LookAtService): Route[] {
  return [
    route(
      'GET',
      '/admin/v1/status',
      gate.guard(() => look()),
    ),
  ];
}
