/**
 * Owns what an operator's change makes of the grant that is stored for an account.
 * It must stay pure: it gets the time, and returns the grant for others to store.
 */
import { invalid } from '../errors.js';
import { limits } from '../limits/index.js';
import type { AccountGrant, GrantName } from './account-policy.js';

export interface BalanceChange {
  /** null switches the balance off. */
  readonly tokens: number | null;
  /** Adds to the balance; begins one where there is none. */
  readonly added: boolean;
}

export interface UserChange {
  /** Undefined sets a field back to the settings. */
  readonly fields: Partial<Record<GrantName, unknown>>;
  readonly balance: BalanceChange | null;
}

/** @throws ApiError for a balance beyond what can be counted. */
export function changedGrant(
  stored: AccountGrant,
  { fields, balance }: UserChange,
  nowMs: number,
): AccountGrant {
  const credit = balance === null ? {} : { credit: creditAfter(stored, balance, nowMs) };
  const all = Object.entries({ ...stored, ...fields, ...credit });
  return Object.fromEntries(all.filter(([, value]) => value !== undefined)) as AccountGrant;
}

function creditAfter(
  { credit }: AccountGrant,
  { tokens, added }: BalanceChange,
  nowMs: number,
): AccountGrant['credit'] {
  if (tokens === null) return null;
  if (added && credit) return { ...credit, tokens: checked(credit.tokens + tokens) };
  // Greater than the number of every earlier ledger, whatever the clock does.
  const ledger = Math.max(nowMs, (credit?.ledger ?? 0) + 1);
  return { ledger, tokens };
}

function checked(tokens: number): number {
  if (tokens <= limits.accountTokensMax) return tokens;
  const text = `the balance would be ${tokens} tokens, at most ${limits.accountTokensMax} are allowed`;
  throw invalid(text, 'tokens');
}
