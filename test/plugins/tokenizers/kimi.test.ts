import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import t from 'tap';
import plugin from '../../../plugins/tokenizers/tiktoken/index.js';
import { hostileTexts } from '../../../src/plugin/test/hostile-text.js';
import { randomText, seededRandom, testSeed } from '../../../src/plugin/test/random-text.js';
import { tokenizerSuite } from '../../../src/plugin/test/tokenizer.js';

tokenizerSuite(t, {
  name: 'tokenizer-tiktoken with the shipped Kimi K2 vocabulary',
  plugin,
  options: { path: null },
});

const shipped = new URL('../../../../plugins/tokenizers/data/kimi-k2.tiktoken.gz', import.meta.url);
const ranksText = gunzipSync(readFileSync(shipped));

/** Written out by hand, from the published pattern, with nothing of the plugin. */
const UPPER = '[[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]--\\p{Script=Han}]';
const LOWER = '[[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]--\\p{Script=Han}]';
const SPACE = '[\\t-\\r \\u0085\\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000]';
const TAIL = "(?:'(?:[sSſtTmMdD]|[rR][eE]|[vV][eE]|[lL][lL]))?";
const PIECES = new RegExp(
  [
    '\\p{Script=Han}+',
    `[^\\r\\n\\p{L}\\p{N}]?${UPPER}*${LOWER}+${TAIL}`,
    `[^\\r\\n\\p{L}\\p{N}]?${UPPER}+${LOWER}*${TAIL}`,
    '\\p{N}{1,3}',
    ` ?[[^\\p{L}\\p{N}]--${SPACE}]+[\\r\\n]*`,
    `${SPACE}*[\\r\\n]+`,
    `${SPACE}+(?![^\\t-\\r \\u0085\\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000])`,
    `${SPACE}+`,
  ].join('|'),
  'gv',
);

/** The plain algorithm: look at all pairs, join the lowest, begin again. */
function referenceOf(ranks: ReadonlyMap<string, number>): (text: string) => number[] {
  const encodePiece = (piece: string): number[] => {
    const letters = Buffer.from(piece).toString('latin1');
    const whole = ranks.get(letters);
    if (whole !== undefined) return [whole];
    const parts = [...letters];
    for (;;) {
      let best = Number.POSITIVE_INFINITY;
      let place = -1;
      for (let at = 0; at + 1 < parts.length; at += 1) {
        const rank = ranks.get(`${parts[at]}${parts[at + 1]}`) ?? Number.POSITIVE_INFINITY;
        if (rank < best) [best, place] = [rank, at];
      }
      if (place < 0) return parts.map((part) => ranks.get(part) ?? -1);
      parts.splice(place, 2, `${parts[place]}${parts[place + 1]}`);
    }
  };
  return (text) => (text.match(PIECES) ?? []).flatMap(encodePiece);
}

t.test('the shipped ranks are the published ones', async (t) => {
  t.equal(
    createHash('sha256').update(ranksText).digest('hex'),
    'b6c497a7469b33ced9c38afb1ad6e47f03f5e5dc05f15930799210ec050c5103',
  );
});

t.test('ids are those of the published pattern and plain merging', async (t) => {
  const lines = ranksText.toString('latin1').trimEnd().split('\n');
  const reference = referenceOf(
    new Map(
      lines.map((line, rank) => [
        Buffer.from(line.split(' ')[0] ?? '', 'base64').toString('latin1'),
        rank,
      ]),
    ),
  );
  const tokenizer = await plugin.open({ path: null });
  t.teardown(() => {
    tokenizer.close();
  });
  const seed = testSeed();
  const random = seededRandom(seed);
  for (let round = 0; round < 3000; round += 1) {
    const text = randomText(random, 15);
    const ids = [...tokenizer.encode(text)];
    if (String(ids) !== String(reference(text))) t.same(ids, reference(text), JSON.stringify(text));
  }
  t.pass(`seed ${seed}`);
  for (const [name, text] of Object.entries(hostileTexts(1000))) {
    t.same([...tokenizer.encode(text)], reference(text), name);
  }
});

t.test('the family has its special ids, and ends at two of them', async (t) => {
  const tokenizer = await plugin.open({ path: null });
  const { special, endIds, vocabulary } = tokenizer.info();
  t.match(special, {
    '[BOS]': 163_584,
    '[EOS]': 163_585,
    '<|im_end|>': 163_586,
    '<|im_user|>': 163_587,
    '<|im_assistant|>': 163_588,
    '<|im_system|>': 163_594,
    '<|tool_calls_section_begin|>': 163_595,
    '<|tool_call_end|>': 163_599,
    '<|im_middle|>': 163_601,
    '[PAD]': 163_839,
  });
  t.same(endIds, [163_585, 163_586]);
  t.equal(vocabulary.offsets.length - 1, 163_840);
  tokenizer.close();
});
