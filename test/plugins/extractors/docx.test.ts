/** Owns the proof that documents of Word are read as a person would read them. */
import t from 'tap';
import plugin from '../../../plugins/extractors/office/docx.js';
import { extractorSuite } from '../../../src/plugin/test/extractor.js';

const document = (name: string) =>
  new URL(`../../../../test/documents/office/${name}`, import.meta.url);

const fileType = 'application/vnd.openxmlformats-officedocument.wordprocessingml.document';

extractorSuite(t, {
  plugin,
  documents: [
    {
      bytes: document('testWORD_various.docx'),
      filename: 'testWORD_various.docx',
      fileType,
      words: [
        'This is the header text.',
        'Footnote appears here[1]',
        'Here is a text box',
        '• Bullet 1 • Bullet 2 • Bullet 3',
        '1) Number bullet 1 2) Number bullet 2 3) Number bullet 3',
        'Row 1 Col 1\tRow 1 Col 2\tRow 1 Col 3',
        'Row 2 Col 1\tRow 2 Col 2\tRow 2 Col 3',
        'ゾルゲと尾崎、淡々と最期',
        '𐌲𐌿𐍄𐌹𐍃𐌺',
        'This is the footer text.',
        '[1] This is a footnote.',
      ],
      reaches: ['unpackedBytesMax', 'unpackRatioMax', 'archiveEntriesMax', 'nestingMax'],
    },
    {
      bytes: document('testWORD_numbered_list.docx'),
      filename: 'testWORD_numbered_list.docx',
      fileType,
      pages: 3,
      words: [
        '1) This a) Is i) A multi ii) Level',
        'iii) List 2) foo',
        'I. yet a) another i) list',
        '6. six 7. seven a. seven a',
        'list over a section break 1. list 1 2. list 2',
        '1. 1 1.1.1. 1.1.1 1.1. 1.2',
      ],
    },
  ],
});
