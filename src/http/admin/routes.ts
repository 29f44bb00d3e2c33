/**
 * Owns the admin API as a whole: every route below `/admin/v1`, or none of them.
 * It must never exist without a key of its own.
 */
import type { OperatorKey } from '../operator-key.js';
import type { Route } from '../router.js';
import { adminActivityRoutes, type LookAtActivity } from './activity.js';
import { type AdminBatchParts, adminBatchRoutes } from './batches.js';
import { AdminGate } from './gate.js';
import { adminKeyRoutes, type UserKeys } from './keys.js';
import { type AdminModels, adminModelRoutes } from './models.js';
import { type AdminOwnedParts, adminOwnedRoutes } from './owned.js';
import { adminStatusRoutes, type LookAtService } from './status.js';
import { type AdminUserParts, adminUserRoutes, type Users } from './users.js';

export interface AdminProcessParts {
  readonly status: LookAtService;
  readonly activity: LookAtActivity;
  readonly models: AdminModels;
}

/** Of the process. @param key while there is none, the API is off. */
export function adminProcessRoutes(key: OperatorKey, parts: AdminProcessParts): Route[] {
  const gate = new AdminGate(key);
  return [
    ...adminStatusRoutes(gate, parts.status),
    ...adminActivityRoutes(gate, parts.activity),
    ...adminModelRoutes(gate, parts.models),
  ];
}

export interface AdminRecordParts extends AdminUserParts, AdminOwnedParts, AdminBatchParts {
  readonly users: Users & UserKeys;
}

/** Of users and what they keep. @param key as above. */
export function adminRecordRoutes(key: OperatorKey, parts: AdminRecordParts): Route[] {
  const gate = new AdminGate(key);
  return [
    ...adminUserRoutes(gate, parts),
    ...adminKeyRoutes(gate, parts.users),
    ...adminOwnedRoutes(gate, parts),
    ...adminBatchRoutes(gate, parts),
  ];
}
