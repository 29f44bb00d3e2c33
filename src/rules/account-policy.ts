/**
 * Owns what an operator grants an account: its state, its limits, what is open to it, and the refusals that follow.
 * It must stay pure, and know nothing of what the account has used.
 */
import { createHash } from 'node:crypto';
import { ApiError } from '../errors.js';
import { limits } from '../limits/index.js';
import type { AccountStateName, Api } from '../protocol/account-words.js';

export {
  type AccountStateName,
  type Api,
  accountStates,
  apis,
  USER_HEADER_PATTERN,
} from '../protocol/account-words.js';

/** Tokens an account was given. Setting a balance begins a new ledger, which forgets earlier charges. */
export interface Credit {
  readonly ledger: number;
  readonly tokens: number;
}

export interface AccountPolicy {
  readonly state: AccountStateName;
  /** Requests at the same time. */
  readonly concurrency: number;
  /** Requests a minute; null here and below: without bound. */
  readonly rpm: number | null;
  readonly tpm: number | null;
  readonly tpd: number | null;
  readonly files: number;
  /** Uploads and extracted texts of all its files. */
  readonly fileBytes: number;
  /** Tokens of all its live caches. */
  readonly cachedTokens: number;
  readonly tags: number;
  /** Kept ones: the oldest make room for new ones. */
  readonly responses: number;
  readonly responseBytes: number;
  readonly conversations: number;
  readonly conversationBytes: number;
  readonly batches: number;
  /** Results that lie beside its batches until their files are written. */
  readonly batchBytes: number;
  /** null: all. */
  readonly models: readonly string[] | null;
  readonly apis: readonly Api[] | null;
  /** Header in which the account's keys name one of its own people; null: they name nobody. */
  readonly userHeader: string | null;
  readonly credit: Credit | null;
}

/** The granted fields; the others stay as they were. */
export type AccountGrant = Partial<AccountPolicy>;
export type GrantName = Exclude<keyof AccountPolicy, 'credit'>;

export const defaultPolicy: AccountPolicy = {
  state: 'active',
  concurrency: limits.accountConcurrencyDefault,
  rpm: null,
  tpm: null,
  tpd: null,
  files: limits.filesPerOwnerMax,
  fileBytes: limits.fileBytesPerOwnerMax,
  cachedTokens: limits.accountCachedTokensDefault,
  tags: limits.accountTagsDefault,
  responses: limits.responsesPerOwnerMax,
  responseBytes: limits.responseBytesPerOwnerMax,
  conversations: limits.conversationsPerOwnerMax,
  conversationBytes: limits.conversationBytesPerOwnerMax,
  batches: limits.batchesPerOwnerMax,
  batchBytes: limits.batchResultBytesPerOwnerMax,
  models: null,
  apis: null,
  userHeader: null,
  credit: null,
};

/** Later grants win, field by field. */
export function policyOf(...grants: readonly AccountGrant[]): AccountPolicy {
  return Object.assign({ ...defaultPolicy }, ...grants);
}

/** No user name has it, so an owner that has it is nobody's user name. */
const PERSON_MARK = '/';
/** 128 bits: nobody finds two names of one hash. */
const PERSON_LENGTH = 32;

/** Who owns what a request makes and reuses: the account, or the person of it that its header names. */
export function ownerOf(user: string, person: string | undefined): string {
  if (person === undefined || person === '') return user;
  const hash = createHash('sha256').update(person).digest('hex').slice(0, PERSON_LENGTH);
  return `${user}${PERSON_MARK}${hash}`;
}

/** The account that answers for what an owner does: its grants, rates and balance. */
export function accountOf(owner: string): string {
  const end = owner.indexOf(PERSON_MARK);
  return end < 0 ? owner : owner.slice(0, end);
}

/** How an account is named in refusals. */
export interface AccountName {
  readonly user: string;
  readonly keyId: string;
}

/** @throws ApiError 403 for an account that is not active, then for an API that is not open to it. */
export function checkEntry(policy: AccountPolicy, name: AccountName, api: Api | null): void {
  if (policy.state !== 'active') throw notActive(policy, name);
  if (api !== null && policy.apis !== null && !policy.apis.includes(api)) {
    throw new ApiError('apiNotOpen');
  }
}

/** Why a request that runs must end; null: it may go on. */
export function endOfRunning(policy: AccountPolicy, name: AccountName): ApiError | null {
  const goesOn = policy.state === 'active' || policy.state === 'draining';
  return goesOn ? null : notActive(policy, name);
}

function notActive({ state }: AccountPolicy, { user, keyId }: AccountName): ApiError {
  return new ApiError('accountNotActive', { uid: user, 'ak-id': keyId, 'current state': state });
}

/** An automatic id is open where one of the models it stands for is. */
export function modelOpen(policy: AccountPolicy, id: string): boolean {
  return policy.models === null || policy.models.includes(id);
}
