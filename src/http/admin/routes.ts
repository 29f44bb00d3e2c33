/**
 * Owns the admin API as a whole: every route below `/admin/v1`, or none of them.
 * It must never exist without a key of its own.
 */
import { OperatorKey } from '../operator-key.js';
import type { Route } from '../router.js';
import { AdminGate } from './gate.js';
import { adminKeyRoutes, type UserKeys } from './keys.js';
import { type AdminOwnedParts, adminOwnedRoutes } from './owned.js';
import { adminStatusRoutes, type LookAtService } from './status.js';
import { type AdminUserParts, adminUserRoutes, type Users } from './users.js';

export interface AdminParts extends AdminUserParts, AdminOwnedParts {
  readonly users: Users & UserKeys;
  readonly status: LookAtService;
}

/** @param key null: the API is off. */
export function adminRoutes(key: string | null, parts: AdminParts): Route[] {
  if (key === null) return [];
  const gate = new AdminGate(new OperatorKey(key));
  return [
    ...adminStatusRoutes(gate, parts.status),
    ...adminUserRoutes(gate, parts),
    ...adminKeyRoutes(gate, parts.users),
    ...adminOwnedRoutes(gate, parts),
  ];
}
