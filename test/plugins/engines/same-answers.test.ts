/**
 * Owns the proof that the check of an upstream's answers finds what depends on other work, and passes what does not.
 * It must never need a real upstream.
 */
import t from 'tap';
import { compareAnswers } from '../../../bench/support/same-answers.js';

t.test('a server whose answers follow from the prompt alone passes', async (t) => {
  const asked: string[] = [];
  const rows = await compareAnswers(async (prompt) => {
    asked.push(prompt);
    return { text: `${prompt.length}`, logprobs: [-prompt.length, -1] };
  });
  t.strictSame(
    rows.map(({ sameText, gap }) => [sameText, gap]),
    [
      [true, 0],
      [true, 0],
      [true, 0],
    ],
  );
  t.equal(new Set(asked).size, 9, 'one prompt, a longer one, and seven others');
});

t.test('a server whose answers depend on what runs beside them is found', async (t) => {
  let running = 0;
  const rows = await compareAnswers(async (prompt) => {
    running += 1;
    await null;
    const logprobs = [-1, running > 1 ? -2.25 : -2];
    await null;
    running -= 1;
    return { text: prompt, logprobs };
  });
  t.strictSame(
    rows.map(({ gap }) => gap),
    [0, 0.25, 0.25],
  );
});

t.test('a server that answers a known prompt otherwise is found', async (t) => {
  const seen = new Set<string>();
  const rows = await compareAnswers(async (prompt) => {
    const isHit = seen.has(prompt);
    seen.add(prompt);
    return { text: isHit ? 'b' : 'a', logprobs: [-1] };
  });
  t.strictSame(
    rows.map(({ sameText }) => sameText),
    [false, false, false],
  );
});
