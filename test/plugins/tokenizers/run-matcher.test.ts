import t from 'tap';
import plugin from '../../../plugins/tokenizers/tiktoken/index.js';
import { kimiPattern, patternOfPre } from '../../../plugins/tokenizers/tiktoken/patterns.js';
import { hostileTexts } from '../../../src/plugin/test/hostile-text.js';
import { randomText, seededRandom, testSeed } from '../../../src/plugin/test/random-text.js';

const patterns = [kimiPattern, ...['smollm', 'gpt-2', 'llama-bpe', 'qwen2'].map(patternOfPre)];

t.test('pieces are those of the expression', async (t) => {
  const seed = testSeed();
  const random = seededRandom(seed);
  const letters = "aAБб漢あ\u0301ǅ1\u{1D7D8}😀 \n\t'sS!\u00a0\ud800";
  const mixed = () =>
    Array.from({ length: 12 }, () => [...letters][random([...letters].length)]).join('');
  const texts = [
    ...Array.from({ length: 2000 }, mixed),
    ...Array.from({ length: 500 }, () => randomText(random, 15)),
    ...Object.values(hostileTexts(6000)),
  ];
  for (const { script, runs } of patterns) {
    for (const text of texts) {
      for (let at = 0; at < text.length; ) {
        script.lastIndex = at;
        const wanted = script.test(text) ? script.lastIndex : -1;
        const end = runs.end(text, at);
        if (end !== wanted) t.equal(end, wanted, `${JSON.stringify(text.slice(0, 99))} at ${at}`);
        at = Math.max(wanted, at + 1);
      }
    }
  }
  t.pass(`seed ${seed}`);
});

t.test('a run as long as a body is one piece', async (t) => {
  const tokenizer = await plugin.open({ path: null });
  t.teardown(() => {
    tokenizer.close();
  });
  const text = '!'.repeat(7_500_000);
  const { length } = tokenizer.encode(text);
  t.ok(length > 0 && length < text.length / 2);
});
