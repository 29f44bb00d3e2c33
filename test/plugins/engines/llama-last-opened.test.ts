/** Owns the proof that the note of the last context is taken once, and that one which cannot be read or taken opens nothing. */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { LastOpened } from '../../../plugins/engines/llama/last-opened.js';

t.test('a note is taken once', async (t) => {
  const note = new LastOpened(join(t.testdir(), 'state'));
  t.equal(await note.take(), null);
  await note.note('m');
  t.equal(await note.take(), 'm');
  t.equal(await note.take(), null);
});

t.test('what cannot be taken away opens nothing, and nothing fails', async (t) => {
  const folder = t.testdir();
  mkdirSync(join(folder, 'engine-llama-last-opened.json'));
  const note = new LastOpened(folder);
  t.equal(await note.take(), null);
  await note.note('m');
  t.equal(await note.take(), null);
});
