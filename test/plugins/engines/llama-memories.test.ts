/**
 * A reused prefix gives the answer of a cold run, bit for bit, on every kind of memory that a model can have.
 * TEST_SCHEDULES=2000 runs so many random schedules in place of a few; a failure names its seed.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { testSeed } from '../../../src/plugin/test/random-text.js';
import { runSchedule } from '../../support/reuse-schedules.js';
import { TINY_TOKENS, tinyModels, writeTinyModel } from '../../support/tiny-models.js';

const SCHEDULES = Number(process.env.TEST_SCHEDULES ?? 5);
const STEPS = 14;
const folder = await mkdtemp(join(tmpdir(), 'preface-memories-'));
t.teardown(() => rm(folder, { recursive: true }));
t.setTimeout(Math.max(600, SCHEDULES * 60) * 1_000);

for (const [i, arch] of tinyModels.entries()) {
  t.test(`${arch}: a hit is the cold answer`, async (t) => {
    const weights = join(folder, `${arch}.gguf`);
    await writeTinyModel(weights, arch);
    let reused = 0;
    for (let n = i; n < SCHEDULES; n += tinyModels.length) {
      const seed = testSeed() + n;
      const options = { weights, idMax: TINY_TOKENS - 1, steps: STEPS };
      const result = await runSchedule(seed, options);
      t.same(result.differences, [], `seed ${seed}: ${result.compared} answers`);
      reused += result.reusedTokens;
    }
    t.ok(reused > 0, `${reused} tokens were reused`);
  });
}
