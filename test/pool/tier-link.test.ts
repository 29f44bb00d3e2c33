/**
 * Owns the proof of the way between an engine and the second place of its prefixes: each fetch has one answer, or ends.
 * It must never need an engine.
 */
import t from 'tap';
import type { SnapshotFile, SnapshotTier } from '../../src/plugin/contract.js';
import { type TierAsk, TierCaller, TierServer } from '../../src/pool/tier-link.js';

const file = { name: 'a', fingerprint: 'f', file: 'a.f', bytes: 5 };
const wanted = { ...file, evaluateMs: 7 };

/** Both ends, and a place whose fetches a test ends. */
function linked() {
  const told: [string, SnapshotFile][] = [];
  const fetches: { signal: AbortSignal; end: (brought: boolean) => void }[] = [];
  const tier: SnapshotTier = {
    bring: (_wanted, signal) =>
      new Promise((resolve) => {
        fetches.push({ signal, end: resolve });
        signal.addEventListener('abort', () => resolve(false));
      }),
    kept: (kept) => void told.push(['kept', kept]),
    damaged: (damaged) => void told.push(['damaged', damaged]),
  };
  const server = new TierServer(tier, (answer) => caller.receive(answer));
  const caller = new TierCaller((ask: TierAsk) => server.receive(structuredClone(ask)));
  return { told, fetches, server, caller };
}

t.test('fetches run beside each other, each with its own answer', async (t) => {
  const { caller, fetches, told } = linked();
  const [one, two] = [new AbortController(), new AbortController()];
  const brought = [caller.bring(wanted, one.signal), caller.bring(wanted, two.signal)];
  fetches[1]?.end(true);
  t.equal(await brought[1], true);
  one.abort();
  t.equal(await brought[0], false);
  t.same([fetches[0]?.signal.aborted, fetches[1]?.signal.aborted], [true, false]);
  two.abort();
  t.equal(fetches[1]?.signal.aborted, false, 'it was over');
  t.equal(await caller.bring(wanted, one.signal), false);
  t.equal(fetches.length, 2, 'nobody is asked for what nobody wants');
  caller.kept(file);
  caller.damaged(file);
  t.same(told, [
    ['kept', file],
    ['damaged', file],
  ]);
});

t.test('with its engine a fetch ends', async (t) => {
  const { caller, server, fetches } = linked();
  const brought = caller.bring(wanted, new AbortController().signal);
  server.close();
  t.equal(fetches[0]?.signal.aborted, true);
  t.equal(await brought, false);
});
