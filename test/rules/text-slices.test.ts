/** Owns the proof that a text in slices is the same text, in the same bytes. */
import { createHash } from 'node:crypto';
import t from 'tap';
import { textSlices } from '../../src/rules/text-slices.js';

t.test('slices are together the text, and no character is cut', async (t) => {
  for (const text of [
    '',
    'a',
    'x'.repeat(200_000),
    '😀'.repeat(100_000),
    `a${'😀'.repeat(100_000)}`,
  ]) {
    const slices = [...textSlices(text)];
    t.equal(slices.join(''), text);
    const hash = createHash('sha256');
    for (const slice of slices) {
      t.ok(slice.length <= 65_536, `${slice.length} units`);
      hash.update(slice);
    }
    t.equal(hash.digest('hex'), createHash('sha256').update(text).digest('hex'));
  }
});

t.test('a text of halves of characters is cut, too', async (t) => {
  const halves = '\ud800'.repeat(70_000);
  t.equal([...textSlices(halves)].join(''), halves);
});
