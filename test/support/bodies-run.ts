/**
 * Owns the long run of expensive bodies: `npm run test:bodies`, with TEST_BODIES for their number and TEST_SEED for the first.
 * It must never judge: it prints the longest answer of `/health` meanwhile, and the seed of the body it came with.
 */
import t from 'tap';
import { limits } from '../../src/limits/index.js';
import { testSeed } from '../../src/plugin/test/random-text.js';
import { expensiveBody } from './expensive-bodies.js';
import { mainThreadCpuMs } from './main-thread.js';
import { startServiceProcess } from './service-process.js';

t.setTimeout(0);
const count = Number(process.env.TEST_BODIES ?? 10_000);

t.test(`${count} bodies`, async (t) => {
  const service = await startServiceProcess(t, {});
  const first = testSeed();
  let longest = { ms: 0, cpuMs: 0, seed: first, kind: '' };
  const pauses: number[] = [];
  for (let seed = first; seed < first + count; seed += 1) {
    const { path, kind, bytes } = expensiveBody(seed);
    const cpuMs = mainThreadCpuMs(service.pid);
    const answer = fetch(new URL(path, service.url), {
      method: 'POST',
      headers: { authorization: `Bearer ${service.key}`, 'content-type': 'application/json' },
      body: new Uint8Array(bytes),
    }).then(async (response) => ({ status: response.status, text: await response.text() }));
    const ms = await longestHealth(service.url, answer);
    const { status } = await answer;
    const refusals = bytes.byteLength > limits.bodyBytesMax ? [413] : [400, 429];
    if (![200, ...refusals].includes(status)) t.fail(`${status} for ${kind} of seed ${seed}`);
    pauses.push(ms);
    if (ms > longest.ms) longest = { ms, cpuMs: mainThreadCpuMs(service.pid) - cpuMs, seed, kind };
    if ((seed - first) % 500 === 499)
      console.log(`${seed - first + 1} bodies, the longest pause so far: ${text(longest)}`);
  }
  const p99 = pauses.toSorted((a, b) => a - b)[Math.floor(0.99 * pauses.length)] ?? 0;
  console.log(`longest pause of /health: ${text(longest)}; p99 of all bodies ${p99.toFixed(0)} ms`);
  t.pass();
});

function text({
  ms,
  cpuMs,
  seed,
  kind,
}: {
  ms: number;
  cpuMs: number;
  seed: number;
  kind: string;
}): string {
  return `${ms.toFixed(0)} ms (${cpuMs} ms of the main thread) with ${kind}, seed ${seed}`;
}

/** Milliseconds of the slowest answer of `/health` until the other one is there. */
async function longestHealth(url: string, until: Promise<unknown>): Promise<number> {
  const over = { is: false };
  void until.finally(() => (over.is = true));
  let longest = 0;
  while (!over.is) {
    const beganMs = performance.now();
    await (await fetch(new URL('/health', url))).text();
    longest = Math.max(longest, performance.now() - beganMs);
  }
  return longest;
}
