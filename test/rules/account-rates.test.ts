/**
 * Owns the comparison of an account's rates with an exact log of what its chats used, through crashes and restarts.
 * It must keep the reference free of windows and reservations.
 */
import fc from 'fast-check';
import t from 'tap';
import type { ApiError } from '../../src/errors.js';
import {
  type AccountMessage,
  type AccountRecord,
  type AccountState,
  accountTransition,
  restoredAccount,
} from '../../src/rules/account.js';
import { type AccountPolicy, defaultPolicy } from '../../src/rules/account-policy.js';

const MINUTE_MS = 60_000;
const policy: AccountPolicy = {
  ...defaultPolicy,
  rpm: 12,
  tpm: 1_000,
  tpd: 20_000,
  credit: { ledger: 1, tokens: 30_000 },
};
const by = { keyId: 'ak-1', policy };

type Step =
  | { readonly do: 'wait'; readonly ms: number }
  | { readonly do: 'begin'; readonly tokens: number }
  | { readonly do: 'end'; readonly at: number; readonly part: number }
  /** The record on disk is what it was; nobody settles. */
  | { readonly do: 'crash'; readonly part: number }
  | { readonly do: 'restart' };

const part = fc.double({ min: 0, max: 1, noNaN: true });
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('wait' as const),
      ms: fc.oneof(
        { weight: 4, arbitrary: fc.integer({ min: 0, max: 2_000 }) },
        { weight: 1, arbitrary: fc.integer({ min: 0, max: 61_000 }) },
      ),
    }),
  },
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constant('begin' as const),
      tokens: fc.oneof(fc.integer({ min: 1, max: 200 }), fc.integer({ min: 1, max: 1_100 })),
    }),
  },
  { weight: 6, arbitrary: fc.record({ do: fc.constant('end' as const), at: fc.nat(20), part }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('crash' as const), part }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('restart' as const) }) },
);

interface Entry {
  readonly atMs: number;
  readonly amount: number;
}

class World {
  /** What the store holds: nothing new before a message was taken, however often the service starts. */
  record: AccountRecord | null = null;
  state: AccountState = restoredAccount(null, 'alice', null);
  nowMs = 1_700_000_000_000;
  /** What chats may use, of those that run. */
  running: number[] = [];
  readonly used: Entry[] = [];
  readonly requests: Entry[] = [];
  refused = 0;
  waited = 0;

  take(step: Step): void {
    if (step.do === 'wait') this.nowMs += step.ms;
    else if (step.do === 'begin') this.#begin(step.tokens);
    else if (step.do === 'end') this.#end(step.at % Math.max(1, this.running.length), step.part);
    else {
      // A clean end settles what runs; a crash leaves it to the next life, which does not know how much it used.
      while (this.running.length > 0) this.#lose(step.do === 'crash' ? step.part : null);
      this.state = restoredAccount(this.record, 'alice', null);
    }
  }

  #send(message: AccountMessage): void {
    this.state = accountTransition(this.state, message, this.nowMs).next;
    this.record = this.state;
  }

  #begin(tokens: number): void {
    const refusal = this.#try(tokens);
    if (refusal === null) {
      this.requests.push({ atMs: this.nowMs, amount: 1 });
      this.running.push(tokens);
      return;
    }
    this.refused += 1;
    this.#checkWait(tokens, refusal);
  }

  /** Admission and reservation; a chat that gets only the first is settled with nothing. */
  #try(tokens: number): ApiError | null {
    try {
      this.#send({ type: 'admit', ...by });
    } catch (cause) {
      return cause as ApiError;
    }
    try {
      this.#send({ type: 'reserve', ...by, tokens });
      return null;
    } catch (cause) {
      this.requests.push({ atMs: this.nowMs, amount: 1 });
      this.#settle(0, 0);
      return cause as ApiError;
    }
  }

  #end(at: number, part: number): void {
    const [reserved] = this.running.splice(at, 1);
    if (reserved === undefined) return;
    const used = Math.round(reserved * part);
    this.used.push({ atMs: this.nowMs, amount: used });
    this.#settle(used, reserved);
  }

  #lose(part: number | null): void {
    if (part === null) {
      this.#end(0, 1);
      return;
    }
    const reserved = this.running.shift() ?? 0;
    this.used.push({ atMs: this.nowMs, amount: Math.round(reserved * part) });
  }

  #settle(used: number, reserved: number): void {
    const usage = { promptTokens: used, cachedTokens: 0, completionTokens: 0 };
    this.#send({ type: 'settle', usage, reserved });
  }

  /** A request that waits for a certain time is admitted, even if all running chats use all they reserved. */
  #checkWait(tokens: number, refusal: ApiError): void {
    const { retryAfterMs } = refusal.extra;
    const all = this.running.reduce((sum, reserved) => sum + reserved, 0);
    if (refusal.row === 'quotaExceeded') return;
    if (tokens > 1_000 && refusal.row === 'tokensPerMinute') {
      if (!refusal.final || retryAfterMs !== undefined) throw new Error('a wait that is useless');
      return;
    }
    if (retryAfterMs === undefined) throw new Error(`${refusal.row} without a wait`);
    if (refusal.row === 'tokensPerMinute' && tokens + all > 1_000) return;
    if (refusal.row === 'tokensPerDay') return;
    const later = new World();
    later.state = this.state;
    later.nowMs = this.nowMs + retryAfterMs / 2;
    for (const reserved of this.running) later.#settle(reserved, reserved);
    later.nowMs = this.nowMs + retryAfterMs;
    const again = later.#try(refusal.row === 'requestLimit' ? 0 : tokens);
    this.waited += 1;
    if (again !== null && again.row === refusal.row) throw new Error(`again: ${again.message}`);
  }
}

/** Of any window that ends with an entry, which is where a sum is greatest. */
function mostIn(log: readonly Entry[], windowMs: number): number {
  const sums = log.map(({ atMs }) =>
    log.reduce((sum, entry) => {
      const inside = entry.atMs <= atMs && atMs - entry.atMs < windowMs;
      return sum + (inside ? entry.amount : 0);
    }, 0),
  );
  return Math.max(0, ...sums);
}

t.test('no window holds more than it may, wherever it begins and whatever happens', async (t) => {
  const tally = { refused: 0, waited: 0 };
  const run = fc.property(
    fc.array(step, { minLength: 100, maxLength: 150, size: 'max' }),
    (steps) => {
      const world = new World();
      for (const each of steps) world.take(each);
      tally.refused += world.refused;
      tally.waited += world.waited;
      const total = world.used.reduce((sum, { amount }) => sum + amount, 0);
      return (
        mostIn(world.used, MINUTE_MS) <= 1_000 &&
        mostIn(world.used, 24 * 60 * MINUTE_MS) <= 20_000 &&
        mostIn(world.requests, MINUTE_MS) <= 12 &&
        total <= 30_000
      );
    },
  );
  const result = fc.check(run, { numRuns: 300 });
  t.notOk(result.failed, `seed ${result.seed}`, {
    counterexample: result.counterexample,
    error: String(result.errorInstance),
  });
  t.ok(tally.refused > 1_000 && tally.waited > 300, JSON.stringify(tally));
});
