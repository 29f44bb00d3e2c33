/**
 * Owns the accounts: one actor a user, asked before each chat and told after it.
 * It must cost a chat no write: what chats used is saved by the second, so a crash may forget the last one.
 */

import type { Logic } from '../actors/actor.js';
import { Registry } from '../actors/registry.js';
import { type Clock, steadyClock } from '../clock.js';
import type { RateLeft, RatesLeft } from '../errors.js';
import { limits } from '../limits/index.js';
import {
  type AccountMessage,
  type AccountRecord,
  type AccountState,
  accountTransition,
  restoredAccount,
  type TokenUsage,
} from '../rules/account.js';
import type { AccountPolicy } from '../rules/account-policy.js';
import { dayView, limitsTokens, type RateRecord, ratesLeft } from '../rules/account-rates.js';
import type { Store, StoreKey } from '../store/store.js';

/** Leave to run one chat. */
export interface Admission {
  /**
   * Before the chat runs, with its prompt and longest answer; once at most. Plain where nothing is limited.
   * @throws ApiError of the rates and the balance.
   */
  reserve(tokens: number): Promise<void> | null;
  /** As they were after the last of the above; null for what is not limited. */
  rates(): RatesLeft;
  /** Ends it. Must be called once, whatever became of the chat; further calls do nothing. */
  settle(usage: TokenUsage): void;
}

export interface AccountsParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly report: (fault: unknown) => void;
}

const RECORDS: StoreKey = ['account'];

type AccountLogic = Logic<AccountState, AccountRecord, AccountMessage, AccountState, never>;

export class Accounts {
  readonly #registry: Registry<AccountState, AccountRecord, AccountMessage, AccountState, never>;
  readonly #report: (fault: unknown) => void;
  readonly #clock: Clock;
  /** Rates are measured by it: a wall clock that is set would let everybody in again, or nobody. */
  readonly #steady: Clock;
  readonly #store: Store;

  constructor(parts: AccountsParts) {
    const { store, clock, report } = parts;
    const logic = accountLogic();
    this.#report = report;
    this.#clock = clock;
    this.#store = store;
    this.#steady = steadyClock(clock);
    const steady = this.#steady;
    this.#registry = new Registry({ logic, store, clock: steady, report, runEffect: noEffect });
  }

  /**
   * Plain unless the account is being written just now; `await` takes both.
   * @throws ApiError `concurrencyLimit`, `overloaded`.
   */
  admit(user: string, keyId: string, policy: AccountPolicy): Admission | Promise<Admission> {
    const state = this.#registry.ask(user, { type: 'admit', keyId, policy });
    return state instanceof Promise
      ? state.then((admitted) => this.#admission(admitted, keyId, policy))
      : this.#admission(state, keyId, policy);
  }

  /** As it is now, for who wants to see it. */
  async look(user: string): Promise<AccountState> {
    return await this.#registry.ask(user, { type: 'read' });
  }

  /** What is left of the rates now. */
  rates(rates: RateRecord, policy: AccountPolicy): RatesLeft & { readonly day: RateLeft | null } {
    const nowMs = this.#steady.nowMs();
    return { ...ratesLeft(rates, policy, nowMs), day: dayView(rates, policy, nowMs) };
  }

  /** Of whom there is a record, in no order. */
  *recorded(): Generator<string> {
    const range = { prefix: RECORDS, limit: limits.storePageMax };
    let page = this.#store.page(range);
    for (let last = page.at(-1); last; last = page.at(-1)) {
      for (const { key } of page) yield String(key[1]);
      page = this.#store.page({ ...range, after: last.key });
    }
  }

  close(): Promise<void> {
    return this.#registry.close();
  }

  #admission(admitted: AccountState, keyId: string, policy: AccountPolicy): Admission {
    const { user } = admitted;
    let state = admitted;
    let open = true;
    let reserved = 0;
    const beganMs = this.#clock.monotonicMs();
    return {
      reserve: (tokens) => {
        if (!limitsTokens(policy)) return null;
        return this.#reserve(user, keyId, policy, tokens).then((next) => {
          state = next;
          reserved = tokens;
        });
      },
      rates: () => {
        const { requests, tokens } = this.rates(state.rates, policy);
        return { requests, tokens };
      },
      settle: (usage) => {
        if (!open) return;
        open = false;
        this.#settle(user, usage, reserved, this.#clock.monotonicMs() - beganMs);
      },
    };
  }

  async #reserve(user: string, keyId: string, policy: AccountPolicy, tokens: number) {
    return await this.#registry.ask(user, { type: 'reserve', keyId, policy, tokens });
  }

  #settle(user: string, usage: TokenUsage, reserved: number, tookMs: number): void {
    try {
      const wallMs = this.#clock.nowMs();
      const message = { type: 'settle', usage, reserved, tookMs, wallMs } as const;
      const settled = this.#registry.askUnbounded(user, message);
      if (settled instanceof Promise) settled.catch(this.#report);
    } catch (fault) {
      this.#report(fault);
    }
  }
}

function accountLogic(): AccountLogic {
  return {
    key: (user) => [...RECORDS, user],
    restore: restoredAccount,
    saved: ({ today, past, rates }) => ({ today, past, rates }),
    indexChanges: () => [],
    transition: accountTransition,
    resume: () => [],
    evictable: ({ inFlight }) => inFlight === 0,
  };
}

async function noEffect(): Promise<null> {
  return null;
}
