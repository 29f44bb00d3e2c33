/** Owns the proof that owners take turns at the parsing threads, counted in tasks and not in time. */
import t from 'tap';
import { OwnerTurns } from '../../src/parsing/turns.js';
import { until } from '../support/until.js';

/** Tasks that end when the test says so, and the order in which they began. */
class Gated {
  readonly began: string[] = [];
  readonly #ends: (() => void)[] = [];

  constructor(readonly turns: OwnerTurns) {}

  ask(owner: string, fails = false): Promise<void> {
    return this.turns.run(owner, async () => {
      this.began.push(owner);
      await new Promise<void>((resolve) => this.#ends.push(resolve));
      if (fails) throw new Error('on purpose');
    });
  }

  /** Ends the task that began as number `at`. */
  async end(at: number): Promise<void> {
    (await until(() => this.#ends[at]))?.();
  }
}

t.test('sixteen bodies of one owner delay the body of another by one at most', async (t) => {
  for (const places of [1, 2]) {
    const gated = new Gated(new OwnerTurns(places));
    const all = Array.from({ length: 16 }, () => gated.ask('alice'));
    all.push(gated.ask('bob'));
    for (let at = 0; at < all.length; at += 1) await gated.end(at);
    await Promise.all(all);
    t.equal(gated.began.length, 17);
    t.ok(gated.began.indexOf('bob') <= 1, `${places} places: ${gated.began.join(' ')}`);
  }
});

t.test('an owner has one thread at a time, also when all others are free', async (t) => {
  const gated = new Gated(new OwnerTurns(2));
  const all = [gated.ask('alice'), gated.ask('alice')];
  await until(() => gated.began.length === 1);
  await new Promise(setImmediate);
  t.same(gated.began, ['alice']);
  await gated.end(0);
  await gated.end(1);
  await Promise.all(all);
});

t.test('a task that fails hands its turn on', async (t) => {
  const gated = new Gated(new OwnerTurns(1));
  const failed = gated.ask('alice', true);
  const next = gated.ask('alice');
  const other = gated.ask('bob');
  await gated.end(0);
  await t.rejects(failed, /on purpose/);
  await gated.end(1);
  await gated.end(2);
  await Promise.all([next, other]);
  t.same(gated.began, ['alice', 'bob', 'alice']);
});
