/**
 * Owns what an account is told whose tokens of a day are used up: refused, for how long, and let in when that is over.
 * It must keep the reference free of windows: it looks only at a list of uses.
 */
import fc from 'fast-check';
import t from 'tap';
import { ApiError } from '../../src/errors.js';
import {
  type AccountMessage,
  type AccountState,
  accountTransition,
  restoredAccount,
} from '../../src/rules/account.js';
import { type AccountPolicy, defaultPolicy } from '../../src/rules/account-policy.js';

const DAY_MS = 86_400_000;
/** Uses this close together may leave together: a wait may be this much too long. */
const BUCKET_MS = 900_000;
const TPD = 1_000;
const BEGIN_MS = 1_700_000_000_000;
const policy: AccountPolicy = { ...defaultPolicy, tpd: TPD };
const by = { keyId: 'ak-1', policy };

interface Use {
  readonly atMs: number;
  readonly tokens: number;
}

class Account {
  #state: AccountState = restoredAccount(null, 'alice', null);
  readonly uses: Use[] = [];

  /** A chat that uses all it may, at once; null: it ran. */
  chat(tokens: number, atMs: number): ApiError | null {
    this.#send({ type: 'admit', ...by }, atMs);
    const refusal = this.#reserve(tokens, atMs);
    const used = refusal === null ? tokens : 0;
    const usage = { promptTokens: used, cachedTokens: 0, completionTokens: 0 };
    this.#send({ type: 'settle', usage, reserved: used }, atMs);
    if (refusal === null) this.uses.push({ atMs, tokens });
    return refusal;
  }

  /** As `chat`, and nothing is changed by it. */
  wouldRefuse(tokens: number, atMs: number): ApiError | null {
    const other = new Account();
    other.#state = this.#state;
    return other.chat(tokens, atMs);
  }

  /** The first moment at which so many tokens fit beside the uses of the day before it. */
  freeAtMs(tokens: number, nowMs: number): number {
    const moments = [nowMs, ...this.uses.map(({ atMs }) => atMs + DAY_MS)];
    return Math.min(...moments.filter((ms) => ms >= nowMs && this.#usedBefore(ms) + tokens <= TPD));
  }

  #usedBefore(ms: number): number {
    const inside = this.uses.filter(({ atMs }) => ms - atMs < DAY_MS);
    return inside.reduce((sum, { tokens }) => sum + tokens, 0);
  }

  #reserve(tokens: number, atMs: number): ApiError | null {
    try {
      this.#send({ type: 'reserve', ...by, tokens }, atMs);
      return null;
    } catch (cause) {
      if (cause instanceof ApiError) return cause;
      throw cause;
    }
  }

  #send(message: AccountMessage, atMs: number): void {
    this.#state = accountTransition(this.#state, message, atMs).next;
  }
}

t.test('a day that is used up: refused, told a wait, and in when it is over', async (t) => {
  const account = new Account();
  t.equal(account.chat(600, BEGIN_MS), null);
  t.equal(account.chat(400, BEGIN_MS + 7_200_000), null);
  const nowMs = BEGIN_MS + 10_800_000;
  const refusal = account.chat(1, nowMs);
  t.equal(refusal?.row, 'tokensPerDay');
  t.equal(refusal?.extra.retryAfterMs, DAY_MS - 10_800_000, 'until the oldest use is a day old');
  t.equal(account.wouldRefuse(1, BEGIN_MS + DAY_MS - 1)?.row, 'tokensPerDay');
  t.equal(account.wouldRefuse(600, BEGIN_MS + DAY_MS), null, 'room for what left');
  t.equal(account.wouldRefuse(601, BEGIN_MS + DAY_MS)?.extra.retryAfterMs, 7_200_000, 'no more');
  const never = account.wouldRefuse(TPD + 1, nowMs);
  t.match(never, { row: 'tokensPerDay', extra: { final: true } }, 'what never fits has no wait');
  t.equal(never?.extra.retryAfterMs, undefined);
});

t.test('the wait is enough, and at most a bucket too long, whatever was used when', async (t) => {
  const chats = fc.array(
    fc.record({
      stepMs: fc.oneof(fc.nat(1_000_000), fc.nat(DAY_MS / 4), fc.nat(3 * DAY_MS)),
      tokens: fc.integer({ min: 1, max: TPD / 2 }),
    }),
    { minLength: 30, maxLength: 60, size: 'max' },
  );
  let refused = 0;
  const run = fc.property(chats, (steps) => {
    const account = new Account();
    let nowMs = BEGIN_MS;
    for (const { stepMs, tokens } of steps) {
      nowMs += stepMs;
      const freeMs = account.freeAtMs(tokens, nowMs);
      const refusal = account.chat(tokens, nowMs);
      if (refusal === null) {
        if (freeMs > nowMs) return false;
        continue;
      }
      refused += 1;
      const { retryAfterMs = 0 } = refusal.extra;
      if (refusal.row !== 'tokensPerDay' || retryAfterMs <= 0) return false;
      if (freeMs > nowMs && account.wouldRefuse(tokens, freeMs - 1) === null) return false;
      if (account.wouldRefuse(tokens, nowMs + retryAfterMs) !== null) return false;
      if (nowMs + retryAfterMs > freeMs + BUCKET_MS) return false;
    }
    return true;
  });
  const result = fc.check(run, { numRuns: 200 });
  t.notOk(result.failed, `seed ${result.seed}`, { counterexample: result.counterexample });
  t.ok(refused > 500, `${refused} refusals`);
});
