/** Owns the proof that presentations are read as a person would read them. */
import t from 'tap';
import plugin from '../../../plugins/extractors/office/pptx.js';
import { extractorSuite } from '../../../src/plugin/test/extractor.js';

const document = (name: string) =>
  new URL(`../../../../test/documents/office/${name}`, import.meta.url);

const fileType = 'application/vnd.openxmlformats-officedocument.presentationml.presentation';

extractorSuite(t, {
  plugin,
  documents: [
    {
      bytes: document('testPPT_various.pptx'),
      filename: 'testPPT_various.pptx',
      fileType,
      title: 'Slide 1',
      pages: 1,
      words: [
        'Row 1 Col 1\tRow 1 Col 2\tRow 1 Col 3',
        'Here is a text box',
        '• Bullet 1 • Bullet 2',
        '• Number bullet 1 • Number bullet 2',
        'ゾルゲと尾崎、淡々と最期',
        'Notes: This is the footer text.',
      ],
      reaches: ['unpackedBytesMax', 'unpackRatioMax', 'archiveEntriesMax', 'nestingMax'],
    },
    {
      bytes: document('testPPT_groups.pptx'),
      filename: 'testPPT_groups.pptx',
      fileType,
      pages: 2,
      words: [
        '# MyTitle',
        'Text box3',
        'Text box1',
        'Text box5 tika link',
        'Ungrouped text box',
        'smart1',
      ],
    },
  ],
});
