/**
 * Owns the accounts: one actor a user, asked before each chat and told after it.
 * It must never make a chat wait for a write: usage is saved once a second, so a crash may lose the last second.
 */

import type { Logic } from '../actors/actor.js';
import { Registry } from '../actors/registry.js';
import { type Clock, steadyClock } from '../clock.js';
import { decodeWhole } from '../codec.js';
import type { RateLeft, RatesLeft } from '../errors.js';
import {
  type AccountMessage,
  type AccountRecord,
  type AccountState,
  accountTransition,
  restoredAccount,
  type TokenUsage,
} from '../rules/account.js';
import { type AccountPolicy, accountOf } from '../rules/account-policy.js';
import { dayView, limitsTokens, type RateRecord, ratesLeft } from '../rules/account-rates.js';
import { scan } from '../store/scan.js';
import type { Store, StoreKey } from '../store/store.js';

/** The permission to run one chat. */
export interface Admission {
  /**
   * Takes the tokens of the prompt and the longest answer from the rates, once, before the chat runs.
   * @returns null where nothing is limited. @throws ApiError of the rates and the balance.
   */
  reserve(tokens: number): Promise<void> | null;
  /** The rates after admission or reservation; null for what is not limited. */
  rates(): RatesLeft;
  /** Ends the chat. Must be called once, however the chat ended; further calls do nothing. */
  settle(usage: TokenUsage): void;
}

export interface AccountsParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly report: (fault: unknown) => void;
}

const RECORDS: StoreKey = ['account'];

type Settlement = Extract<AccountMessage, { readonly type: 'settle' }>;

type AccountLogic = Logic<AccountState, AccountRecord, AccountMessage, AccountState, never>;

export class Accounts {
  readonly #registry: Registry<AccountState, AccountRecord, AccountMessage, AccountState, never>;
  readonly #report: (fault: unknown) => void;
  readonly #clock: Clock;
  /** Measures rates. If a wall clock measured them and were set, every chat would be admitted, or none. */
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
   * Replies at once unless the account is being written; `await` takes both.
   * @throws ApiError `concurrencyLimit`, `overloaded`.
   */
  admit(owner: string, keyId: string, policy: AccountPolicy): Admission | Promise<Admission> {
    const state = this.#registry.ask(accountOf(owner), { type: 'admit', keyId, policy });
    return state instanceof Promise
      ? state.then((admitted) => this.#admission(admitted, keyId, policy))
      : this.#admission(state, keyId, policy);
  }

  /** For work that nobody waits for: it takes no place and is no request of the rates, but its tokens count. */
  async unheld(owner: string, keyId: string, policy: AccountPolicy): Promise<Admission> {
    return this.#admission(await this.look(owner), keyId, policy, false);
  }

  /** The current state of the owner's account. */
  async look(owner: string): Promise<AccountState> {
    return await this.#registry.ask(accountOf(owner), { type: 'read' });
  }

  /** As `look`; null where the record of the usage is damaged, until the next use writes it anew. */
  async lookWhole(user: string): Promise<AccountState | null> {
    const record = this.#store.get([...RECORDS, user]);
    const isDamaged = record !== null && decodeWhole<AccountRecord>(record.value) === null;
    return isDamaged ? null : await this.look(user);
  }

  /** What remains of the rates now. */
  rates(rates: RateRecord, policy: AccountPolicy): RatesLeft & { readonly day: RateLeft | null } {
    const nowMs = this.#steady.nowMs();
    const { requests, tokens } = ratesLeft(rates, policy, nowMs);
    return { requests, tokens, day: dayView(rates, policy, nowMs) };
  }

  hasRecord(user: string): boolean {
    return this.#store.get([...RECORDS, user]) !== null;
  }

  /** Users that have a record, in no order. */
  *recorded(): Generator<string> {
    for (const { key } of scan(this.#store, { prefix: RECORDS })) yield String(key[1]);
  }

  close(): Promise<void> {
    return this.#registry.close();
  }

  #admission(admitted: AccountState, keyId: string, policy: AccountPolicy, held = true): Admission {
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
      rates: () => ratesLeft(state.rates, policy, this.#steady.nowMs()),
      settle: (usage) => {
        if (!open) return;
        open = false;
        const tookMs = this.#clock.monotonicMs() - beganMs;
        this.#settle(user, { usage, reserved, ...(held ? { tookMs } : { held: false }) });
      },
    };
  }

  async #reserve(user: string, keyId: string, policy: AccountPolicy, tokens: number) {
    return await this.#registry.ask(user, { type: 'reserve', keyId, policy, tokens });
  }

  #settle(user: string, used: Omit<Settlement, 'type' | 'wallMs'>): void {
    try {
      const wallMs = this.#clock.nowMs();
      const message: Settlement = { type: 'settle', wallMs, ...used };
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
    // The user did not damage it: they are not shut out for it.
    beginsAnew: true,
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
