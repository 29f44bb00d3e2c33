import t from 'tap';
import tokenizerBytes from '../../plugins/tokenizers/bytes/index.js';
import tokenizerTiktoken from '../../plugins/tokenizers/tiktoken/index.js';
import { hostileTexts, prose } from '../../src/plugin/test/hostile-text.js';
import { randomText, seededRandom, testSeed } from '../../src/plugin/test/random-text.js';
import { floorParts, TokenFloor } from '../../src/rules/token-floor.js';
import { skipWithoutWeights, smallModelPath } from '../support/weights.js';

t.test('where a token is a byte, it is the very number', async (t) => {
  const tokenizer = await tokenizerBytes.open({ path: null });
  const floor = new TokenFloor(floorParts(tokenizer.info().vocabulary));
  const segments = [{ special: 256 }, { text: 'aé' }, { image: 258, tokens: 7 }];
  t.ok(floor.reaches(segments, 11));
  t.notOk(floor.reaches(segments, 12));
  t.notOk(floor.reaches([], 1));
});

t.test('bytes without a token of their own count for nothing', async (t) => {
  const vocabulary = { bytes: Uint8Array.of(97, 97, 97), offsets: Uint32Array.of(0, 1, 3) };
  const floor = new TokenFloor(floorParts(vocabulary));
  t.ok(floor.reaches([{ text: 'aaaa' }], 2), 'two of the longest');
  t.notOk(floor.reaches([{ text: 'aaaa' }], 3));
  t.notOk(floor.reaches([{ text: 'bbbb'.repeat(9) }], 1), 'dropped, by this vocabulary');
});

for (const [name, path, skip] of [
  ['Kimi', null, false],
  ['the default model', smallModelPath, skipWithoutWeights],
] as const) {
  t.test(`never more than encoding says, ${name}`, { skip }, async (t) => {
    const tokenizer = await tokenizerTiktoken.open({ path });
    t.teardown(() => tokenizer.close());
    const floor = new TokenFloor(floorParts(tokenizer.info().vocabulary));
    const seed = testSeed();
    const random = seededRandom(seed);
    const texts = Object.values(hostileTexts(8_000));
    for (let round = 0; round < 300; round += 1) texts.push(randomText(random, 40));
    for (const text of texts) {
      const { length } = tokenizer.encode(text);
      if (floor.reaches([{ text }], length + 1)) t.fail(`seed ${seed}: ${text.slice(0, 200)}`);
    }
    t.ok(floor.reaches([{ text: prose(3_000_000) }], 8_192), 'and megabytes are known as such');
  });
}
