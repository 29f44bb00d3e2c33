/**
 * Owns the way in: which key came, whose it is, and whether that account may run a request now.
 * Nothing behind it may answer a request that has not passed here, and every pass is given back once.
 */
import type { Accounts, Admission } from '../accounts/accounts.js';
import { ApiError, type ErrorName } from '../errors.js';
import { limits } from '../limits/index.js';
import type { TokenUsage } from '../rules/account.js';
import { type AccountPolicy, type Api, checkEntry } from '../rules/account-policy.js';
import { bearerKey } from './auth.js';
import type { Exchange } from './exchange.js';
import type { Handler } from './router.js';

interface KeyHolder {
  readonly user: string;
  readonly keyId: string;
}

export interface Caller extends KeyHolder {
  /** As it was when the request came. */
  readonly policy: AccountPolicy;
}

/** With its place among the running requests. */
export interface Admitted extends Caller {
  readonly admission: Pick<Admission, 'reserve' | 'rates'>;
}

export interface Keys {
  lookup(bearer: string): KeyHolder | null;
}

export interface Policies {
  of(user: string): AccountPolicy;
}

/** What the request used is what it resolves to; null for nothing that counts. */
export type Guarded<Params> = (
  exchange: Exchange,
  caller: Admitted,
  params: Params,
) => Promise<TokenUsage | null>;

export interface Entrance {
  /** What must be open to the account; null: nothing. */
  readonly api: Api | null;
  /** A body that declares more is refused before it takes a place; `limits.bodyBytesMax` if absent. */
  readonly bodyBytesMax?: number;
  /** What is said of it then; `bodyTooLarge` if absent. */
  readonly tooLarge?: ErrorName;
}

const NOTHING: TokenUsage = { promptTokens: 0, cachedTokens: 0, completionTokens: 0 };

export class Gate {
  constructor(
    readonly keys: Keys,
    readonly accounts: Accounts,
    readonly policies: Policies,
  ) {}

  /**
   * For what takes no place among the running requests.
   * @throws ApiError 401, 403.
   */
  identify(exchange: Exchange, api: Api | null): Caller {
    const holder = this.keys.lookup(bearerKey(exchange.header('authorization')));
    if (holder === null) throw new ApiError('wrongKey');
    const { user, keyId } = holder;
    exchange.note.account = user;
    const policy = this.policies.of(user);
    checkEntry(policy, holder, api);
    return { user, keyId, policy };
  }

  /** Wraps a handler that runs as one request of its account, and tells what it used. */
  guard<Params>(
    { api, bodyBytesMax = limits.bodyBytesMax, tooLarge = 'bodyTooLarge' }: Entrance,
    handler: Guarded<Params>,
  ): Handler<Params> {
    return async (exchange, params) => {
      const caller = this.identify(exchange, api);
      // A body that says itself that it is too large must not take a place among the running requests.
      if ((exchange.declaredBytes ?? 0) > bodyBytesMax) {
        throw new ApiError(tooLarge, { bytes_max: bodyBytesMax });
      }
      const admission = await this.accounts.admit(caller.user, caller.keyId, caller.policy);
      let used = NOTHING;
      try {
        used = (await handler(exchange, { ...caller, admission }, params)) ?? NOTHING;
      } finally {
        admission.settle(used);
      }
    };
  }

  /** A handler behind the gate that uses no tokens. */
  guardFree<Params>(
    entrance: Entrance,
    handle: (exchange: Exchange, caller: Caller, params: Params) => Promise<void>,
  ): Handler<Params> {
    return this.guard<Params>(entrance, async (exchange, caller, params) => {
      await handle(exchange, caller, params);
      return null;
    });
  }
}
