/**
 * Owns the decisions about one account: whether a chat may start, and what its chats have used.
 * It must stay pure: time comes in with each message, and nothing is written or sent from here.
 */
import { ApiError } from '../errors.js';
import { limits } from '../limits/index.js';
import type { AccountPolicy } from './account-policy.js';
import {
  limitsTokens,
  noRates,
  type RateRecord,
  withRequest,
  withReservation,
  withUse,
} from './account-rates.js';

export interface TokenUsage {
  readonly promptTokens: number;
  /** Prompt tokens that a cache or a kept prefix supplied. */
  readonly cachedTokens: number;
  readonly completionTokens: number;
}

export interface DayUsage extends TokenUsage {
  /** Days since the Unix epoch, UTC. */
  readonly day: number;
  readonly requests: number;
}

/** What the store keeps of an account. */
export interface AccountRecord {
  readonly today: DayUsage;
  /** Earlier days, oldest first. */
  readonly past: readonly DayUsage[];
  readonly rates: RateRecord;
}

export interface AccountState extends AccountRecord {
  readonly user: string;
  /** Chats admitted and not yet settled. Begins at 0: a restart ends all chats. */
  readonly inFlight: number;
  /** When the last free place was taken; null: some are free. In memory only, like the next. */
  readonly fullSinceMs: number | null;
  /** How long requests took lately; null before the first has ended. */
  readonly meanMs: number | null;
  /** Tokens that chats had reserved when the last run crashed; the first message counts them as used. */
  readonly lost: number;
}

export type AccountMessage =
  /** Each admission is followed by exactly one `settle`, however the chat ended. */
  | { readonly type: 'admit'; readonly keyId: string; readonly policy: AccountPolicy }
  /** At most once between the two, with prompt and longest answer. */
  | {
      readonly type: 'reserve';
      readonly keyId: string;
      readonly policy: AccountPolicy;
      readonly tokens: number;
    }
  /** Reads the state without a change. */
  | { readonly type: 'read' }
  /** `reserved`: what `reserve` took, 0 without one. */
  | {
      readonly type: 'settle';
      readonly usage: TokenUsage;
      readonly reserved: number;
      /** False for what ran without being admitted. */
      readonly held?: false;
      readonly tookMs?: number;
      /** The time for counting days, where it differs from the one for rates. */
      readonly wallMs?: number;
    };

export interface AccountDecision {
  readonly next: AccountState;
  readonly reply: AccountState;
  readonly save: 'now' | 'later' | 'no';
  readonly effects: readonly never[];
}

const DAY_MS = 86_400_000;
const NO_EFFECTS: readonly never[] = [];

/** @throws ApiError when the account may not start a chat now. */
export function accountTransition(
  restored: AccountState,
  message: AccountMessage,
  nowMs: number,
): AccountDecision {
  const state = restored.lost > 0 ? withLost(restored, nowMs) : restored;
  // The lost tokens count from now on, also when the actor is evicted before the next use.
  const quiet = state === restored ? 'no' : 'later';
  switch (message.type) {
    case 'read':
      return decided(state, quiet);
    case 'admit':
      return decided(
        admitted(state, message, nowMs),
        message.policy.rpm === null ? quiet : 'later',
      );
    case 'reserve':
      return decided(reserved(state, message, nowMs), 'later');
    case 'settle':
      return decided(settled(state, message, nowMs), 'later');
  }
}

function withLost(state: AccountState, nowMs: number): AccountState {
  const use = { used: state.lost, charged: state.lost, reserved: 0 };
  return { ...state, lost: 0, rates: withUse(state.rates, use, nowMs) };
}

export function newAccount(): AccountRecord {
  return { today: emptyDay(0), past: [], rates: noRates };
}

/** @param before the state in memory after a failed write: its counts are newer. */
export function restoredAccount(
  saved: AccountRecord | null,
  user: string,
  before: AccountState | null,
): AccountState {
  if (before !== null) return before;
  const { rates, ...record } = saved ?? newAccount();
  const memory = { user, inFlight: 0, fullSinceMs: null, meanMs: null };
  // No chat runs yet: these reservations belong to chats lost in a crash.
  return { ...record, ...memory, rates: { ...rates, reserved: 0 }, lost: rates.reserved };
}

function decided(next: AccountState, save: AccountDecision['save']): AccountDecision {
  return { next, reply: next, save, effects: NO_EFFECTS };
}

function admitted(
  state: AccountState,
  { keyId, policy }: Extract<AccountMessage, { readonly type: 'admit' }>,
  nowMs: number,
): AccountState {
  const { user, inFlight } = state;
  if (inFlight >= policy.concurrency) {
    const account = { uid: user, 'ak-id': keyId };
    const retryAfterMs = freeMs(state, nowMs);
    const time = Math.ceil(retryAfterMs / 1000);
    const values = { ...account, Concurrency: policy.concurrency, time };
    throw new ApiError('concurrencyLimit', values, { retryAfterMs });
  }
  const rates = withRequest(state.rates, policy, { user, keyId }, nowMs);
  const full = inFlight + 1 >= policy.concurrency;
  const { meanMs, lost, today, past } = state;
  // Every request comes here and to `settled`: a field behind a spread is slow to define.
  const fullSinceMs = full ? nowMs : null;
  return { user, inFlight: inFlight + 1, fullSinceMs, meanMs, lost, today, past, rates };
}

/**
 * Time until a place is likely free: a wait that has lasted so long lasts as long again, and places that are held for
 * so long on average come free so often.
 */
function freeMs({ fullSinceMs, meanMs, inFlight }: AccountState, nowMs: number): number {
  const { concurrencyRetryMs, concurrencyRetryMsMax } = limits;
  const heldMs = fullSinceMs === null ? 0 : nowMs - fullSinceMs;
  const nextMs = (meanMs ?? 0) / Math.max(1, inFlight);
  const guessMs = Math.ceil(Math.max(heldMs, nextMs));
  return Math.min(Math.max(guessMs, concurrencyRetryMs), concurrencyRetryMsMax);
}

/** Weight of the newest request in the mean of their times. */
const MEAN_WEIGHT = 0.2;

function meanOf(meanMs: number | null, tookMs: number): number {
  return meanMs === null ? tookMs : meanMs + MEAN_WEIGHT * (tookMs - meanMs);
}

function reserved(
  state: AccountState,
  { keyId, policy, tokens }: Extract<AccountMessage, { readonly type: 'reserve' }>,
  nowMs: number,
): AccountState {
  if (!limitsTokens(policy)) return state;
  const name = { user: state.user, keyId };
  const need = { tokens, freeMs: freeMs(state, nowMs) };
  return { ...state, rates: withReservation(state.rates, policy, name, need, nowMs) };
}

function settled(
  state: AccountState,
  { usage, reserved, held, tookMs, wallMs }: Extract<AccountMessage, { readonly type: 'settle' }>,
  nowMs: number,
): AccountState {
  const day = dayOf(wallMs ?? nowMs);
  const used = usage.promptTokens + usage.completionTokens;
  const use = { used, charged: used - usage.cachedTokens, reserved };
  const rates = reserved === 0 ? state.rates : withUse(state.rates, use, nowMs);
  const { today, past } = state.today.day < day ? nextDay(state, day) : state;
  const counted = {
    day: today.day,
    requests: today.requests + 1,
    promptTokens: today.promptTokens + usage.promptTokens,
    cachedTokens: today.cachedTokens + usage.cachedTokens,
    completionTokens: today.completionTokens + usage.completionTokens,
  };
  const { user, lost } = state;
  if (held === false) return { ...state, today: counted, past, rates };
  const meanMs = tookMs === undefined ? state.meanMs : meanOf(state.meanMs, tookMs);
  const inFlight = state.inFlight - 1;
  return { user, inFlight, fullSinceMs: null, meanMs, lost, today: counted, past, rates };
}

/** A clock that jumped back does not get here: the later day goes on. */
function nextDay(state: AccountState, day: number): Pick<AccountRecord, 'today' | 'past'> {
  const days = state.today.requests > 0 ? [...state.past, state.today] : state.past;
  return { today: emptyDay(day), past: days.slice(-(limits.usageDaysMax - 1)) };
}

/** The newest first; today is among them even without any use. */
export function usageDays(state: AccountState, nowMs: number, count: number): DayUsage[] {
  const today = state.today.day < dayOf(nowMs) ? nextDay(state, dayOf(nowMs)) : state;
  return [...today.past, today.today].reverse().slice(0, count);
}

/** `2026-11-21`, in UTC. */
export function dateOf({ day }: DayUsage): string {
  return new Date(day * DAY_MS).toISOString().slice(0, 10);
}

function emptyDay(day: number): DayUsage {
  return { day, requests: 0, promptTokens: 0, cachedTokens: 0, completionTokens: 0 };
}

function dayOf(nowMs: number): number {
  return Math.floor(nowMs / DAY_MS);
}
