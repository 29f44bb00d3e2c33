/**
 * Owns what counts against an account's rates and balance: what was used, and what running chats may still use.
 * It must never let a chat run whose prompt and longest answer would not fit beside all that.
 */
import { ApiError } from '../errors.js';
import { limits } from '../limits.js';
import type { AccountName, AccountPolicy } from './account-policy.js';
import { addedTo, emptyWindow, type RateWindow, waitMs, windowAt } from './rate-window.js';

export interface RateRecord {
  readonly requests: RateWindow;
  readonly minute: RateWindow;
  readonly day: RateWindow;
  /** Of the balance with this number. */
  readonly spent: { readonly ledger: number; readonly tokens: number };
  /** Tokens that running chats may use. In a record that a start finds, they were lost in a crash. */
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
  throw new ApiError('requestLimit', values, { retryAfterMs: wait });
}

export function limitsTokens({ tpm, tpd, credit }: AccountPolicy): boolean {
  return tpm !== null || tpd !== null || credit !== null;
}

/** @throws ApiError `tokensPerMinute`, `tokensPerDay`, `quotaExceeded`. */
export function withReservation(
  rates: RateRecord,
  policy: AccountPolicy,
  { user, keyId }: AccountName,
  tokens: number,
  nowMs: number,
): RateRecord {
  const { minute, day, reserved } = rates;
  const name = { uid: user, 'ak-id': keyId };
  const need = tokens + reserved;
  if (policy.tpm !== null) {
    const current = windowAt(minute, minuteSpan, nowMs).used + reserved;
    const values = { ...name, current_tpm: current, max_tpm: policy.tpm };
    if (current + tokens > policy.tpm) {
      const wait = waitMs(minute, minuteSpan, { need, max: policy.tpm }, nowMs);
      throw new ApiError('tokensPerMinute', values, retryAfter(wait));
    }
  }
  if (policy.tpd !== null) {
    const current = windowAt(day, daySpan, nowMs).used + reserved;
    const values = { ...name, current_tpd: current, max_tpd: policy.tpd };
    if (current + tokens > policy.tpd) {
      const wait = waitMs(day, daySpan, { need, max: policy.tpd }, nowMs);
      throw new ApiError('tokensPerDay', values, retryAfter(wait));
    }
  }
  const spent = spentOf(rates, policy);
  if (policy.credit !== null) {
    const left = policy.credit.tokens - spent.tokens;
    if (need > left) throw new ApiError('quotaExceeded', { token_credit: Math.max(0, left) });
  }
  return { ...rates, spent, reserved: need };
}

/** Running chats that stand in the way end unseen: when, is a guess. */
function retryAfter(wait: number | null): { readonly retryAfterMs: number } {
  return { retryAfterMs: Math.max(wait ?? 0, limits.concurrencyRetryMs) };
}

/** What a chat used takes the place of what it might have used. */
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
  /** The same without what a cache supplied. */
  readonly charged: number;
  readonly reserved: number;
}

/** A balance that was set anew has nothing spent of it. */
export function spentOf({ spent }: RateRecord, { credit }: AccountPolicy): RateRecord['spent'] {
  return credit === null || spent.ledger === credit.ledger
    ? spent
    : { ledger: credit.ledger, tokens: 0 };
}

export interface BalanceView {
  readonly granted: number;
  readonly spent: number;
  /** By chats that run. */
  readonly reserved: number;
  /** What a new chat may use at most. */
  readonly available: number;
}

/** null: nothing is granted, and so nothing is limited. */
export function balanceView(rates: RateRecord, policy: AccountPolicy): BalanceView | null {
  if (policy.credit === null) return null;
  const granted = policy.credit.tokens;
  const spent = spentOf(rates, policy).tokens;
  const { reserved } = rates;
  return { granted, spent, reserved, available: Math.max(0, granted - spent - reserved) };
}

export interface RateView {
  readonly limit: number;
  readonly remaining: number;
  /** Until all of it is free again, if nothing else is used. */
  readonly resetMs: number;
}

export function requestView(
  { requests }: RateRecord,
  { rpm }: AccountPolicy,
  nowMs: number,
): RateView | null {
  return rpm === null ? null : viewOf(requests, rpm, 0, nowMs);
}

/** Of the minute. */
export function tokenView(
  { minute, reserved }: RateRecord,
  { tpm }: AccountPolicy,
  nowMs: number,
): RateView | null {
  return tpm === null ? null : viewOf(minute, tpm, reserved, nowMs);
}

export function dayView(
  { day, reserved }: RateRecord,
  { tpd }: AccountPolicy,
  nowMs: number,
): RateView | null {
  return tpd === null ? null : viewOf(day, tpd, reserved, nowMs, daySpan);
}

function viewOf(
  window: RateWindow,
  limit: number,
  reserved: number,
  nowMs: number,
  span = minuteSpan,
): RateView {
  const { used, buckets } = windowAt(window, span, nowMs);
  const newest = buckets.at(-1)?.toMs ?? nowMs;
  const usedMs = used === 0 ? 0 : Math.max(0, newest + span.windowMs - nowMs);
  return {
    limit,
    remaining: Math.max(0, limit - used - reserved),
    resetMs: reserved > 0 ? span.windowMs : usedMs,
  };
}
