/**
 * Owns what counts against an account's rates and balance: tokens used, and tokens that running chats may still use.
 * It must never admit a chat whose prompt and longest answer do not fit beside them.
 */
import { ApiError, type ErrorExtra, type RateLeft, type RatesLeft } from '../errors.js';
import type { AccountName, AccountPolicy } from './account-policy.js';
import {
  addedTo,
  emptyWindow,
  type RateWindow,
  type WindowSpan,
  waitMs,
  windowAt,
} from './rate-window.js';

export interface RateRecord {
  readonly requests: RateWindow;
  readonly minute: RateWindow;
  readonly day: RateWindow;
  /** Tokens spent of the balance with this ledger number. */
  readonly spent: { readonly ledger: number; readonly tokens: number };
  /** Tokens that running chats may use. In a record read at start, they belong to chats lost in a crash. */
  readonly reserved: number;
}

export const noRates: RateRecord = {
  requests: emptyWindow,
  minute: emptyWindow,
  day: emptyWindow,
  spent: { ledger: 0, tokens: 0 },
  reserved: 0,
};

const minuteSpan = { windowMs: 60_000, bucketMs: 1_000 };
const daySpan = { windowMs: 86_400_000, bucketMs: 900_000 };

/** @throws ApiError `requestLimit`. */
export function withRequest(
  rates: RateRecord,
  policy: AccountPolicy,
  { user, keyId }: AccountName,
  nowMs: number,
): RateRecord {
  if (policy.rpm === null) return rates;
  const retryAfterMs = waitMs(rates.requests, minuteSpan, { need: 1, max: policy.rpm }, nowMs);
  if (retryAfterMs === 0) {
    return { ...rates, requests: addedTo(rates.requests, minuteSpan, 1, nowMs) };
  }
  const wait = retryAfterMs ?? minuteSpan.windowMs;
  const values = { uid: user, 'ak-id': keyId, RPM: policy.rpm, time: Math.ceil(wait / 1000) };
  const left = ratesLeft(rates, policy, nowMs);
  throw new ApiError('requestLimit', values, { retryAfterMs: wait, rates: left });
}

export function limitsTokens({ tpm, tpd, credit }: AccountPolicy): boolean {
  return tpm !== null || tpd !== null || credit !== null;
}

export interface Need {
  /** Tokens of the prompt and the longest answers. */
  readonly tokens: number;
  /** An estimate of when one of the running chats ends. */
  readonly freeMs: number;
}

/** @throws ApiError `tokensPerMinute`, `tokensPerDay`, `quotaExceeded`. */
export function withReservation(
  rates: RateRecord,
  policy: AccountPolicy,
  { user, keyId }: AccountName,
  need: Need,
  nowMs: number,
): RateRecord {
  const { minute, day, reserved } = rates;
  const name = { uid: user, 'ak-id': keyId };
  const refusal = (window: RateWindow, span: WindowSpan, max: number | null) =>
    max === null ? null : refusalBy(window, span, { ...need, reserved, max }, nowMs);
  const left = () => ratesLeft(rates, policy, nowMs);
  const byMinute = refusal(minute, minuteSpan, policy.tpm);
  if (byMinute !== null) {
    const values = { ...name, current_tpm: byMinute.current, max_tpm: policy.tpm ?? 0 };
    throw new ApiError('tokensPerMinute', values, { ...byMinute.extra, rates: left() });
  }
  const byDay = refusal(day, daySpan, policy.tpd);
  if (byDay !== null) {
    const values = { ...name, current_tpd: byDay.current, max_tpd: policy.tpd ?? 0 };
    throw new ApiError('tokensPerDay', values, { ...byDay.extra, rates: left() });
  }
  const all = need.tokens + reserved;
  const spent = spentOf(rates, policy);
  if (policy.credit !== null) {
    const left = policy.credit.tokens - spent.tokens;
    if (all > left) throw new ApiError('quotaExceeded', { token_credit: Math.max(0, left) });
  }
  return { ...rates, spent, reserved: all };
}

/** null: the tokens fit beside those used and those that running chats may still use. */
function refusalBy(
  window: RateWindow,
  span: WindowSpan,
  { tokens, freeMs, reserved, max }: Need & { readonly reserved: number; readonly max: number },
  nowMs: number,
): { readonly current: number; readonly extra: ErrorExtra } | null {
  const current = windowAt(window, span, nowMs).used + reserved;
  if (current + tokens <= max) return null;
  // More than the whole window: waiting does not help.
  if (tokens > max) return { current, extra: { final: true } };
  // Holds even if the running chats use all they may: their longest answers are counted already.
  const sureMs = waitMs(window, span, { need: tokens + reserved, max }, nowMs);
  if (sureMs !== null) return { current, extra: { retryAfterMs: sureMs } };
  // Some of them have to end first, with less than they may use.
  const leastMs = waitMs(window, span, { need: tokens, max }, nowMs) ?? 0;
  return { current, extra: { retryAfterMs: Math.max(leastMs, freeMs) } };
}

/** Replaces the tokens that a chat might have used by those that it used. */
export function withUse(
  rates: RateRecord,
  { used, charged, reserved }: Use,
  nowMs: number,
): RateRecord {
  return {
    requests: rates.requests,
    minute: addedTo(rates.minute, minuteSpan, used, nowMs),
    day: addedTo(rates.day, daySpan, used, nowMs),
    spent: { ...rates.spent, tokens: rates.spent.tokens + charged },
    reserved: rates.reserved - reserved,
  };
}

export interface Use {
  /** Prompt and answer. */
  readonly used: number;
  /** Prompt and answer without the tokens that a cache supplied. */
  readonly charged: number;
  readonly reserved: number;
}

/** Nothing is spent of a new ledger. */
export function spentOf({ spent }: RateRecord, { credit }: AccountPolicy): RateRecord['spent'] {
  return credit === null || spent.ledger === credit.ledger
    ? spent
    : { ledger: credit.ledger, tokens: 0 };
}

export interface BalanceView {
  readonly granted: number;
  readonly spent: number;
  /** Tokens that running chats may use. */
  readonly reserved: number;
  /** Tokens that the new chat may use. */
  readonly available: number;
}

/** null: no balance is set, so nothing is limited. */
export function balanceView(rates: RateRecord, policy: AccountPolicy): BalanceView | null {
  if (policy.credit === null) return null;
  const granted = policy.credit.tokens;
  const spent = spentOf(rates, policy).tokens;
  const { reserved } = rates;
  return { granted, spent, reserved, available: Math.max(0, granted - spent - reserved) };
}

/** The rates of the minute, for the headers of a chat or its refusal. */
export function ratesLeft(rates: RateRecord, policy: AccountPolicy, nowMs: number): RatesLeft {
  return {
    requests: requestView(rates, policy, nowMs),
    tokens: tokenView(rates, policy, nowMs),
  };
}

function requestView(
  { requests }: RateRecord,
  { rpm }: AccountPolicy,
  nowMs: number,
): RateLeft | null {
  return rpm === null ? null : viewOf(requests, rpm, 0, nowMs);
}

function tokenView(
  { minute, reserved }: RateRecord,
  { tpm }: AccountPolicy,
  nowMs: number,
): RateLeft | null {
  return tpm === null ? null : viewOf(minute, tpm, reserved, nowMs);
}

export function dayView(
  { day, reserved }: RateRecord,
  { tpd }: AccountPolicy,
  nowMs: number,
): RateLeft | null {
  return tpd === null ? null : viewOf(day, tpd, reserved, nowMs, daySpan);
}

function viewOf(
  window: RateWindow,
  limit: number,
  reserved: number,
  nowMs: number,
  span = minuteSpan,
): RateLeft {
  const { used, buckets } = windowAt(window, span, nowMs);
  const newest = buckets.at(-1)?.toMs ?? nowMs;
  const usedMs = used === 0 ? 0 : Math.max(0, newest + span.windowMs - nowMs);
  return {
    limit,
    remaining: Math.max(0, limit - used - reserved),
    resetMs: reserved > 0 ? span.windowMs : usedMs,
  };
}
