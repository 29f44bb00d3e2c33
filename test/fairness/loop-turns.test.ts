/**
 * Owns the proof that work which is ready at once is spread over turns of the event loop, owners in rotation.
 * It must measure by a clock of its own, never by the machine's.
 */
import { setImmediate } from 'node:timers/promises';
import t from 'tap';
import { LoopTurns } from '../../src/fairness/loop-turns.js';

const TURNS_MAX = 1_000;

/** Each piece of work takes 4 ms of a turn that has 10. */
function world() {
  let nowMs = 0;
  let turn = 0;
  const turns = new LoopTurns({ monotonicMs: () => nowMs }, 10);
  const done: [turn: number, owner: string][] = [];
  const work = async (owner: string) => {
    const later = turns.take(owner);
    if (later !== null) await later;
    nowMs += 4;
    done.push([turn, owner]);
  };
  // Begins before any work does, so that it is the first thing of each turn.
  const counting = async () => {
    for (; turn < TURNS_MAX; turn += 1) await setImmediate();
  };
  void counting();
  const run = async (count: number) => {
    while (done.length < count) await setImmediate();
  };
  return { turns, done, work, run };
}

t.test('while a turn has time, nothing waits', async (t) => {
  const { turns } = world();
  t.equal(turns.take('alice'), null);
  t.equal(turns.take('alice'), null);
});

t.test('the rest waits for later turns, each with as much as fits', async (t) => {
  const { done, work, run } = world();
  for (let i = 0; i < 9; i++) void work('alice');
  await run(9);
  const perTurn = counts(done);
  t.ok(perTurn.every((count) => count <= 3));
  t.ok(perTurn.length >= 3, `${perTurn}`);
});

t.test('a hundred of one owner delay the one of another by a turn', async (t) => {
  const { done, work, run } = world();
  for (let i = 0; i < 100; i++) void work('alice');
  void work('bob');
  await run(101);
  const at = done.findIndex(([, owner]) => owner === 'bob');
  t.ok(at <= 5, `${at} came before`);
});

t.test('work in parts never takes a second turn at once', async (t) => {
  const { turns, run, done, work } = world();
  let isLater = false;
  void setImmediate().then(() => {
    isLater = true;
  });
  await turns.next('alice');
  t.ok(isLater);
  void work('bob');
  await run(1);
  t.equal(done.length, 1);
});

function counts(done: readonly (readonly [turn: number, owner: string])[]): number[] {
  const all = new Map<number, number>();
  for (const [turn] of done) all.set(turn, (all.get(turn) ?? 0) + 1);
  return [...all.values()];
}
