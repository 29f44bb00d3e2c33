/** Owns the proof that pictures of a document cost no more time than it has for them. */
import t from 'tap';
import { type PagePart, PictureTexts } from '../../../plugins/extractors/ocr/picture-texts.js';
import { testBounds } from '../../support/documents.js';

t.test('a picture is not even taken out of its document once its time is over', async (t) => {
  let nowMs = 0;
  const texts = new PictureTexts({ bounds: testBounds, languages: ['eng'] }, () => nowMs);
  t.teardown(() => texts.close());
  const taken: string[] = [];
  const part = (name: string, takesMs: number): PagePart => ({
    name,
    bytes: () => {
      taken.push(name);
      nowMs += takesMs;
      return null;
    },
  });
  const page = { text: 'The light', pages: 2 };
  const shown = [part('a', 59_000), part('b', 2_000), part('c', 1), part('a', 1)];
  const more = [part('d', 60_000), part('e', 1), part('f', 1)];
  const pages = [
    { ...page, shown },
    { ...page, shown: more },
  ];
  const read = [];
  for await (const each of texts.add(pages)) read.push(each);
  t.same(read, [
    { ...page, skipped: ['c (no time left)'] },
    { ...page, skipped: ['e (no time left)', 'f (no time left)'] },
  ]);
  t.same(taken, ['a', 'b', 'd']);
});
