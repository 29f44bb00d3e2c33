/**
 * The engine of the real model ends in each way a native library can end, or stands still: what ran in it is told, and
 * the process that stood by answers next.
 */
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { copyExactness } from '../../bench/support/known-exactness.js';
import { systemClock } from '../../src/clock.js';
import type { GenerateTask } from '../../src/plugin/contract.js';
import { Host } from '../../src/pool/host.js';
import { echoTask, Recorder } from '../contract/token-stream.js';
import { shallowWeights } from '../support/shallow-weights.js';
import { until } from '../support/until.js';
import { skipWithoutWeights } from '../support/weights.js';

const module = fileURLToPath(new URL('../../plugins/engines/llama/index.js', import.meta.url));
const BACK_MS_MAX = 60_000;
/** A process that only gets no CPU for a while is not one that stands still. */
const PING = { pingMs: 500, pingsMax: 20 };

t.setTimeout(300_000);

const task = (maxTokens: number): GenerateTask => ({
  ...echoTask('', { maxTokens, endIds: [] }),
  prompt: Uint32Array.from([1, 9690, 198, 141]),
});

async function answer(host: Host, maxTokens: number): Promise<string> {
  const reader = new Recorder();
  host.generate(task(maxTokens), reader);
  await reader.ended();
  return reader.error === null ? 'answered' : reader.error.row;
}

t.test('deaths of the real engine', { skip: skipWithoutWeights }, async (t) => {
  const log: string[] = [];
  const stateDir = t.testdir();
  copyExactness(stateDir);
  const host = new Host({
    start: {
      engine: {
        module,
        options: {
          models: [{ id: 'm', weights: shallowWeights(), window: 2048 }],
          exact: true,
          threads: { single: 1, batch: 2 },
          slots: 2,
          memoryBytesMax: 2 ** 31,
          snapshotBytesMax: 2 ** 24,
          stateDir,
        },
      },
    },
    streamsMax: 16,
    clock: systemClock,
    log: (line) => log.push(line),
    standByDelayMs: 0,
    ...PING,
  });
  t.teardown(() => host.close());
  await host.ready;
  t.equal(await answer(host, 2), 'answered');

  for (const signal of ['SIGABRT', 'SIGSEGV', 'SIGKILL', 'SIGSTOP'] as const) {
    await t.test(signal, async (t) => {
      const { pid = 0 } = host;
      t.ok(await until(() => host.pids.every((each) => each !== undefined), BACK_MS_MAX));
      const running = new Recorder();
      host.generate(task(1_500), running);
      await running.until(() => running.events.length > 2);
      process.kill(pid, signal);
      const beganMs = performance.now();
      await running.ended();
      t.equal(running.error?.row, 'server', 'what ran there is told');
      t.equal(await answer(host, 2), 'answered');
      t.comment(`answers again after ${Math.round(performance.now() - beganMs)} ms`);
      t.not(host.pid, pid);
    });
  }
  t.match(log.join('\n'), /no sign of life for 10 s/);
});
