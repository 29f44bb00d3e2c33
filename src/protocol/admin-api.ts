/**
 * Owns the description of the admin operations.
 * It must never say of a field what its schema does not say.
 */

import { limits } from '../limits/index.js';
import { usageDays as days } from './account-api.js';
import {
  adminLists,
  balanceAddedSchema,
  keyCreateSchema,
  keyDeletedSchema,
  keySchema,
  ownedCacheSchema,
  ownedFileSchema,
  userChangeSchema,
  userSchema,
} from './admin.js';
import { serviceStatusSchema } from './admin-status.js';
import { type Operation, type Parameter, pathParameter, type Resource } from './api.js';
import { pageParameters } from './page-query.js';
import { Type } from './schema.js';

const JSON_TYPE = 'application/json';
const TAG = 'Admin';

const user = pathParameter('user', 'Name of the user.');
const newUser = pathParameter(
  'user',
  'Name of the user, who is made where there is none.',
  Type.String({ pattern: '^[A-Za-z0-9][A-Za-z0-9._-]*$', maxLength: limits.ownerLengthMax }),
);

interface Row {
  readonly method: Operation['method'];
  readonly path: string;
  readonly id: string;
  readonly summary: string;
  readonly description?: string;
  readonly parameters?: readonly Parameter[];
  readonly body?: readonly [schema: string, example: unknown];
  readonly requestOptional?: boolean;
  readonly answer: readonly [description: string, schema: string];
  readonly errors?: Operation['errors'];
}

const operation = ({ answer, body, errors = [], ...row }: Row): Operation => {
  const [description, schema] = answer;
  const media = [{ type: JSON_TYPE, schema }];
  const request = body && { type: JSON_TYPE, schema: body[0], examples: { plain: body[1] } };
  const refusals: Operation['errors'] = body ? [...errors, 'bodyTooLarge'] : errors;
  return {
    ...row,
    ...(request && { request }),
    tag: TAG,
    secured: 'admin',
    response: { description, media },
    errors: refusals,
  };
};

const USER = '/admin/v1/users/{user}';
const shown = ['The user, as it is now.', 'User'] as const;
const known = { parameters: [user], errors: ['userNotFound'] } as const;

const rows: readonly Row[] = [
  {
    method: 'get',
    path: '/admin/v1/status',
    id: 'getServiceStatus',
    summary: 'Look at workers, queues, slots, disk and memory',
    answer: ['The service as it is now.', 'ServiceStatus'],
  },
  {
    method: 'get',
    path: '/admin/v1/users',
    id: 'listUsers',
    summary: 'List the users with their limits and what they use',
    parameters: pageParameters('user', 'name', 'asc'),
    answer: ['A page.', 'UserList'],
  },
  {
    ...known,
    method: 'get',
    path: USER,
    id: 'getUser',
    summary: 'Get a user',
    answer: shown,
  },
  {
    ...known,
    method: 'post',
    path: USER,
    id: 'changeUser',
    summary: 'Change what a user is granted, from the next request on',
    body: ['UserChange', { rpm: 120, models: ['svc-v1-8k'], tpd: 'default' }],
    answer: shown,
  },
  {
    ...known,
    method: 'post',
    path: `${USER}/suspend`,
    id: 'suspendUser',
    summary: 'Refuse every request of a user',
    answer: shown,
  },
  {
    ...known,
    method: 'post',
    path: `${USER}/resume`,
    id: 'resumeUser',
    summary: 'Make a user active again',
    answer: shown,
  },
  {
    ...known,
    method: 'post',
    path: `${USER}/balance`,
    id: 'addBalance',
    summary: 'Add tokens to the balance, or begin one',
    body: ['BalanceAdded', { tokens: 100_000 }],
    answer: shown,
  },
  {
    ...known,
    method: 'get',
    path: `${USER}/usage`,
    id: 'getUserUsage',
    summary: 'Get what a user used, by day',
    description:
      'The newest day first; days on which nothing was used are left out, but for today.',
    parameters: [user, days],
    answer: ['The days.', 'UsageList'],
  },
  {
    ...known,
    method: 'get',
    path: `${USER}/keys`,
    id: 'listKeys',
    summary: 'List the stored API keys of a user',
    parameters: [user, ...pageParameters('key', '`created_at`', 'asc')],
    answer: ['A page.', 'KeyList'],
  },
  {
    method: 'post',
    path: `${USER}/keys`,
    id: 'createKey',
    summary: 'Make an API key, and the user if there is none of that name',
    parameters: [newUser],
    body: ['KeyCreate', {}],
    requestOptional: true,
    answer: ['The key, shown only now.', 'Key'],
  },
  {
    method: 'delete',
    path: `${USER}/keys/{id}`,
    id: 'revokeKey',
    summary: 'Revoke an API key at once',
    parameters: [user, pathParameter('id', 'Id of the key: `ak-…`.')],
    answer: ['It is revoked.', 'KeyDeleted'],
    errors: ['userNotFound', 'notFound'],
  },
  {
    method: 'get',
    path: `${USER}/caches`,
    id: 'listUserCaches',
    summary: 'List the context caches of a user, without their messages',
    parameters: [user, ...pageParameters('cache')],
    answer: ['A page.', 'OwnedCacheList'],
    errors: ['userNotFound', 'otherUser'],
  },
  {
    method: 'get',
    path: `${USER}/files`,
    id: 'listUserFiles',
    summary: 'List the files of a user, without their text',
    parameters: [user, ...pageParameters('file')],
    answer: ['A page.', 'OwnedFileList'],
    errors: ['userNotFound', 'otherUser'],
  },
];

export const adminResource: Resource = {
  tag: TAG,
  description: "The operator's own, with the operator's own key; a 404 where none is set.",
  schemas: {
    ServiceStatus: serviceStatusSchema,
    User: userSchema,
    UserChange: userChangeSchema,
    BalanceAdded: balanceAddedSchema,
    Key: keySchema,
    KeyCreate: keyCreateSchema,
    KeyDeleted: keyDeletedSchema,
    OwnedCache: ownedCacheSchema,
    OwnedFile: ownedFileSchema,
    ...adminLists,
  },
  operations: rows.map(operation),
};
