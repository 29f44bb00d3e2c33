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
  ownedBatchSchema,
  ownedCacheDeletedSchema,
  ownedCacheSchema,
  ownedFileSchema,
  userChangeSchema,
  userSchema,
} from './admin.js';
import {
  historySchema,
  levelParameter,
  logLineSchema,
  recentRequestSchema,
  spanParameter,
} from './admin-activity.js';
import { adminModelListSchema, adminModelSchema } from './admin-models.js';
import { serviceStatusSchema } from './admin-status.js';
import { ownedAdviceListSchema } from './advice.js';
import { type Operation, type Parameter, pathParameter, type Resource } from './api.js';
import { pageParameters } from './page-query.js';
import { Type } from './schema.js';

const JSON_TYPE = 'application/json';
const TAG = 'Admin';

const user = pathParameter('user', 'Name of the user.');
const cacheId = pathParameter('id', 'Id of the cache.');
const modelId = pathParameter('id', 'Id of the model.');
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

const MODELS = '/admin/v1/models';
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
    path: '/admin/v1/history',
    id: 'getHistory',
    summary: 'Look at the last hour or day: requests, tokens, times, queue, memory',
    parameters: [spanParameter],
    answer: ['Columns of one value a step, the oldest first.', 'History'],
  },
  {
    method: 'get',
    path: '/admin/v1/requests',
    id: 'listRequests',
    summary: 'List the newest requests with their times, tokens and outcome of the cache',
    description: `The newest ${limits.recentRequestsMax} are kept, in memory; without a text.`,
    parameters: pageParameters('request', '`created_at`'),
    answer: ['A page.', 'RecentRequestList'],
  },
  {
    method: 'get',
    path: '/admin/v1/log',
    id: 'listLogLines',
    summary: 'List the newest lines of the log',
    description: `The newest ${limits.recentLinesMax} are kept, in memory; requests only where the service failed them.`,
    parameters: [levelParameter, ...pageParameters('line', '`created_at`')],
    answer: ['A page.', 'LogLineList'],
  },
  {
    method: 'get',
    path: MODELS,
    id: 'listModelMemory',
    summary: 'List the models with their memory, and downloads of weights',
    answer: ['Every model, those that are not served, and downloads under way.', 'AdminModelList'],
  },
  {
    method: 'post',
    path: `${MODELS}/{id}/load`,
    id: 'loadModel',
    summary: 'Load a model, so that the next request need not wait for it',
    description:
      'The answer comes when it is loaded. Idle models make room; models at work do not.',
    parameters: [modelId],
    answer: ['The model, as it is now.', 'AdminModel'],
    errors: ['notFound', 'modelAtWork'],
  },
  {
    method: 'post',
    path: `${MODELS}/{id}/unload`,
    id: 'unloadModel',
    summary: 'Give back the memory of a model that has no work',
    description:
      'Kept prefixes stay on disk, and the next request loads it again. The only weights of a service stay in memory.',
    parameters: [modelId],
    answer: ['The model, as it is now.', 'AdminModel'],
    errors: ['notFound', 'modelAtWork'],
  },
  {
    method: 'get',
    path: '/admin/v1/caches',
    id: 'listAllCaches',
    summary: 'List the context caches of all users, without their messages',
    parameters: pageParameters('cache'),
    answer: ['A page.', 'OwnedCacheList'],
  },
  {
    method: 'get',
    path: '/admin/v1/files',
    id: 'listAllFiles',
    summary: 'List the files of all users, without their text',
    parameters: pageParameters('file'),
    answer: ['A page.', 'OwnedFileList'],
  },
  {
    method: 'get',
    path: '/admin/v1/advice',
    id: 'listAllAdvice',
    summary: 'List the places at which the prompts of any user part again and again',
    answer: ['The places, the dearest first.', 'OwnedAdviceList'],
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
    method: 'post',
    path: `${USER}/caches/{id}/expire`,
    id: 'expireUserCache',
    summary: 'Let a context cache expire now: it may be revived as any that expired',
    parameters: [user, cacheId],
    answer: ['The cache, as it is now.', 'OwnedCache'],
    errors: ['userNotFound', 'notFound', 'otherUser'],
  },
  {
    method: 'post',
    path: `${USER}/caches/{id}/pin`,
    id: 'pinUserCache',
    summary: 'Keep the prefix of a context cache in memory, where there is room',
    description: 'The status goes back to `pending`; `pinned` tells then whether there was room.',
    parameters: [user, cacheId],
    answer: ['The cache, as it is now.', 'OwnedCache'],
    errors: ['userNotFound', 'notFound', 'otherUser'],
  },
  {
    method: 'post',
    path: `${USER}/caches/{id}/unpin`,
    id: 'unpinUserCache',
    summary: 'Keep the prefix of a context cache in memory no longer',
    parameters: [user, cacheId],
    answer: ['The cache, as it is now.', 'OwnedCache'],
    errors: ['userNotFound', 'notFound', 'otherUser'],
  },
  {
    method: 'delete',
    path: `${USER}/caches/{id}`,
    id: 'deleteUserCache',
    summary: 'Delete a context cache of a user',
    parameters: [user, cacheId],
    answer: ['It is deleted.', 'OwnedCacheDeleted'],
    errors: ['userNotFound', 'notFound', 'otherUser'],
  },
  {
    method: 'get',
    path: `${USER}/advice`,
    id: 'getUserAdvice',
    summary: 'Get the places at which the prompts of a user part again and again',
    parameters: [user],
    answer: ['The places.', 'AdviceList'],
    errors: ['userNotFound'],
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
  {
    method: 'get',
    path: `${USER}/batches`,
    id: 'listUserBatches',
    summary: 'List the batches of a user, without their lines',
    parameters: [user, ...pageParameters('batch')],
    answer: ['A page.', 'OwnedBatchList'],
    errors: ['userNotFound', 'otherUser'],
  },
  {
    method: 'post',
    path: `${USER}/batches/{id}/cancel`,
    id: 'cancelUserBatch',
    summary: 'Cancel a batch of a user: results that are there stay',
    parameters: [user, pathParameter('id', 'Id of the batch: `batch_…`.')],
    answer: ['The batch, as it is now.', 'OwnedBatch'],
    errors: ['userNotFound', 'notFound', 'otherUser', 'invalidRequest'],
  },
];

export const adminResource: Resource = {
  tag: TAG,
  description: "The operator's own, with the operator's own key; a 404 where none is set.",
  schemas: {
    ServiceStatus: serviceStatusSchema,
    History: historySchema,
    RecentRequest: recentRequestSchema,
    LogLine: logLineSchema,
    AdminModel: adminModelSchema,
    AdminModelList: adminModelListSchema,
    User: userSchema,
    UserChange: userChangeSchema,
    BalanceAdded: balanceAddedSchema,
    Key: keySchema,
    KeyCreate: keyCreateSchema,
    KeyDeleted: keyDeletedSchema,
    OwnedAdviceList: ownedAdviceListSchema,
    OwnedCache: ownedCacheSchema,
    OwnedCacheDeleted: ownedCacheDeletedSchema,
    OwnedFile: ownedFileSchema,
    OwnedBatch: ownedBatchSchema,
    ...adminLists,
  },
  operations: rows.map(operation),
};
