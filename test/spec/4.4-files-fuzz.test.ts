/** Owns the proof that damaged documents get answers, each of them; `npm run test:fuzz` sends far more, and times the others. */
import t from 'tap';
import { testSeed } from '../../src/plugin/test/random-text.js';
import { fuzzFiles } from '../support/fuzz-files.js';
import { openService } from '../support/service.js';

const MUTATIONS = 50;

t.test('fifty damaged documents', { timeout: 600_000 }, async (t) => {
  const service = await openService(t, { PREFACE_EXTRACT_PROCESSES: '2' });
  const seed = testSeed();
  const log = (line: string) => t.comment(line);
  const { url } = service;
  const { read, refused } = await fuzzFiles({ url, mutations: MUTATIONS, seed, lanes: 4, log });
  t.comment(`TEST_SEED=${seed}`, refused);
  const refusals = Object.values(refused).reduce((sum, count) => sum + count, 0);
  t.equal(read + refusals, MUTATIONS);
  t.ok(read > 0 && refusals > 0, 'some are damaged too little, some too much');
});
