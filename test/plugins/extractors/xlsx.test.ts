/** Owns the proof that workbooks of Excel are read as a person would read them. */
import t from 'tap';
import plugin from '../../../plugins/extractors/office/xlsx.js';
import { extractorSuite } from '../../../src/plugin/test/extractor.js';

const document = (name: string) =>
  new URL(`../../../../test/documents/office/${name}`, import.meta.url);

const fileType = 'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet';

extractorSuite(t, {
  plugin,
  documents: [
    {
      bytes: document('testEXCEL.xlsx'),
      filename: 'testEXCEL.xlsx',
      fileType,
      title: 'Simple Excel document',
      pages: 3,
      words: ['# Feuil1', 'Number\tSquare', '1\t1', '15\t225', 'Microsoft Excel X for Mac'],
      reaches: ['unpackedBytesMax', 'unpackRatioMax', 'archiveEntriesMax', 'nestingMax'],
    },
    {
      bytes: document('testEXCEL-formats.xlsx'),
      filename: 'testEXCEL-formats.xlsx',
      fileType,
      words: [
        '1,599.99\t-1,599.99',
        '($1,599.99)',
        '1.98E+08',
        '2.50%',
        '2 1/2',
        '6:15 PM',
        '10/3/09',
        '17-May-07',
      ],
    },
  ],
});
