/**
 * Owns the list of refusals that both official SDKs must meet: each row of the contract's table of errors, made to happen.
 * It must never hold a text that the contract does not have.
 */

export interface ErrorCase {
  readonly name: string;
  readonly url: string;
  readonly key: string;
  /** In place of the key. */
  readonly authorization?: string;
  readonly call: 'chat' | 'stream' | 'upload' | 'content' | 'get';
  readonly body?: object;
  readonly bytes?: number;
  readonly purpose?: string;
  readonly id?: string;
  readonly path?: string;
  /** So often it is done before it has to be refused: the first may still meet the end of an older minute. */
  readonly before?: number;
  /** As Python names it. */
  readonly class: string;
  readonly status: number;
  readonly type: string;
  /** A pattern of the whole text. */
  readonly message: string;
  /** Of `x-should-retry`. */
  readonly retry: 'false' | null;
}

/** Users by what they are granted; the position decides the id of the key. */
export const grants: Readonly<Record<string, object>> = {
  plain: {},
  suspended: { state: 'suspended' },
  closed: { apis: ['files'] },
  elsewhere: { models: ['svc-v1-128k'] },
  hoarder: { files: 0 },
  broke: {},
  busy: { concurrency: 1 },
  hasty: { rpm: 1 },
  minute: { tpm: 30 },
  day: { tpd: 30 },
};

export const keyOf = (user: string) => `key-of-${user}`;

const INVALID = 'invalid_request_error';
const RATE = 'rate_limit_reached_error';
const QUOTA = 'exceeded_current_quota_error';
const AUTHENTICATION = 'invalid_authentication_error';

const plain = (text: string) => `^${text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')}$`;
const said = (content: string, more: object = {}) => ({
  call: 'chat' as const,
  body: { model: 'svc-v1-8k', messages: [{ role: 'user', content }], ...more },
});
const account = (user: string) =>
  `Your account ${user}<ak-setting-${Object.keys(grants).indexOf(user) + 1}>`;

type Row = Omit<ErrorCase, 'name' | 'url' | 'key' | 'retry'> & {
  readonly user?: string;
  readonly final?: true;
  readonly admin?: true;
  readonly secret?: string;
};

const bad = { class: 'BadRequestError', status: 400, type: INVALID };
const many = { class: 'RateLimitError', status: 429, type: RATE };
const denied = { class: 'PermissionDeniedError', status: 403, type: 'permission_denied_error' };
const missing = { class: 'NotFoundError', status: 404, type: 'resource_not_found_error' };
const unknown = { class: 'AuthenticationError', status: 401, type: AUTHENTICATION };

/** @param fileId of a file that cannot be read. */
function rows(fileId: string): Readonly<Record<string, Row>> {
  return {
    'input rejected by review': {
      ...said('a forbidden word'),
      ...bad,
      type: 'content_filter',
      message: plain('The request was rejected because it was considered high risk'),
    },
    'a malformed request': {
      ...said('x', { temperature: 2 }),
      ...bad,
      message: plain('Invalid request: temperature must be a number in [0, 1], got 2'),
    },
    'a prompt that is too long': {
      ...said('x'.repeat(9_000)),
      ...bad,
      message: plain('Input token length too long'),
    },
    'prompt and answer that are too long': {
      ...said('x', { max_tokens: 8_192 }),
      ...bad,
      message: plain('Your request exceeded model token limit : 8192'),
    },
    'another purpose': {
      call: 'upload',
      bytes: 1,
      purpose: 'assistants',
      ...bad,
      message: plain("Invalid purpose: only 'file-extract' accepted"),
    },
    'a file that is too large': {
      call: 'upload',
      bytes: 101 * 2 ** 20,
      ...bad,
      message: plain(
        'File size is too large, max file size is 100MB, please confirm and re-upload the file',
      ),
    },
    'an empty file': {
      call: 'upload',
      bytes: 0,
      ...bad,
      message: plain('File size is zero, please confirm and re-upload the file'),
    },
    'too many files': {
      user: 'hoarder',
      call: 'upload',
      bytes: 1,
      ...bad,
      message: plain(
        'The number of files you have uploaded exceeded the max file count 0, please delete previous uploaded files',
      ),
    },
    'another scheme': {
      ...said('x'),
      ...unknown,
      authorization: 'Basic eA==',
      message: plain('Invalid Authentication'),
    },
    'an unknown key': {
      ...said('x'),
      ...unknown,
      secret: 'key-of-nobody',
      message: plain('Incorrect API key provided'),
    },
    'an account that is not active': {
      ...said('x'),
      ...denied,
      user: 'suspended',
      type: QUOTA,
      message: plain(
        `${account('suspended')} is not active, current state: suspended, you may consider to check your account balance`,
      ),
      final: true,
    },
    'an API that is not open': {
      ...said('x'),
      ...denied,
      user: 'closed',
      message: plain('The API you are accessing is not open'),
    },
    "another user's balance": {
      call: 'get',
      path: '/users/busy/balance',
      ...denied,
      message: plain('You are not allowed to get other user info'),
    },
    'a model that is not there': {
      ...said('x', { model: 'svc-v1-16k' }),
      ...missing,
      message: plain('Not found the model or Permission denied'),
    },
    'a model that is not open': {
      ...said('x'),
      ...missing,
      user: 'elsewhere',
      message: plain('Not found the model or Permission denied'),
    },
    'a user that is not there': {
      admin: true,
      call: 'get',
      path: '/users/nobody',
      ...missing,
      message: plain('Users nobody not found'),
    },
    'an engine without room': {
      ...said('/full'),
      ...many,
      type: 'engine_overloaded_error',
      message: plain('The engine is currently overloaded, please try again later'),
    },
    'a balance that is too low': {
      ...said('x'),
      ...many,
      user: 'broke',
      type: QUOTA,
      message: plain('You exceeded your current token quota: 5, please check your account balance'),
      final: true,
    },
    concurrency: {
      ...said('x'),
      ...many,
      user: 'busy',
      message: `^${account('busy')} request reached max concurrency: 1, please try again after [1-9][0-9]? seconds$`,
    },
    'requests a minute': {
      ...said('x'),
      ...many,
      user: 'hasty',
      before: 2,
      message: `^${account('hasty')} request reached max request: 1, please try again after [1-9][0-9]? seconds$`,
    },
    'tokens a minute': {
      ...said('x', { max_tokens: 100 }),
      ...many,
      user: 'minute',
      message: plain(`${account('minute')} request reached TPM rate limit, current:0, limit:30`),
      final: true,
    },
    'tokens a day': {
      ...said('x', { max_tokens: 100 }),
      ...many,
      user: 'day',
      message: plain(`${account('day')} request reached TPD rate limit,current:0, limit:30`),
      final: true,
    },
    'a file that cannot be read': {
      call: 'content',
      id: fileId,
      class: 'InternalServerError',
      status: 500,
      type: 'server_error',
      message: '^Failed to extract file: .+$',
      final: true,
    },
  };
}

export function errorCases(url: string, adminKey: string, fileId: string): readonly ErrorCase[] {
  return Object.entries(rows(fileId)).map(([name, { user = 'plain', final, ...row }]) => {
    const { admin, secret, ...rest } = row;
    return {
      ...rest,
      name,
      url: admin ? url.replace(/\/v1$/, '/admin/v1') : url,
      key: admin ? adminKey : (secret ?? keyOf(user)),
      retry: final ? 'false' : null,
    };
  });
}
