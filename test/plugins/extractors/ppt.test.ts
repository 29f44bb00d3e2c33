/** Owns the proof that presentations of PowerPoint before 2007 are read as a person would read them. */
import t from 'tap';
import { openOle } from '../../../plugins/extractors/office/ole.js';
import plugin from '../../../plugins/extractors/office/ppt.js';
import { loadSheetJs, writeOle } from '../../../plugins/extractors/office/sheetjs.js';
import { extractorSuite } from '../../../src/plugin/test/extractor.js';
import { documentBytes, openForTest, readAll } from '../../support/documents.js';

await loadSheetJs();

const document = (name: string) =>
  new URL(`../../../../test/documents/office/${name}`, import.meta.url);

extractorSuite(t, {
  plugin,
  documents: [
    {
      bytes: document('testPPT.ppt'),
      filename: 'testPPT.ppt',
      fileType: 'application/vnd.ms-powerpoint',
      words: ['# Sample Powerpoint Slide', 'Created with Microsoft', 'Powerpoint X for Mac'],
      reaches: ['nestingMax'],
    },
    {
      bytes: document('poi-comments.ppt'),
      filename: 'comments.ppt',
      fileType: 'application/vnd.ms-powerpoint',
      words: ['Comment: [Administrator] '],
    },
    {
      bytes: document('poi-footer.ppt'),
      filename: 'footer.ppt',
      fileType: 'application/vnd.ms-powerpoint',
      words: ['Notes: testdoc test phrase'],
    },
  ],
});

t.test('a presentation for two versions of PowerPoint is read in the newer form', async (t) => {
  const bytes = documentBytes('office/testPPT.ppt');
  const container = openOle(bytes);
  const [stream, user] = ['PowerPoint Document', 'Current User'].map((name) =>
    Buffer.from(container.stream(name) ?? []),
  );
  const dual = writeOle({
    'PowerPoint Document': Buffer.from('the older form'),
    '/PP97_DUALSTORAGE/PowerPoint Document': stream ?? Buffer.alloc(0),
    '/PP97_DUALSTORAGE/Current User': user ?? Buffer.alloc(0),
  });
  const extractor = await openForTest(plugin);
  const textOf = async (of: Uint8Array) => (await readAll(extractor, of)).map(({ text }) => text);
  t.same(await textOf(dual), await textOf(bytes));
});
