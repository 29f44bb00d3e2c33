/** Owns the proof that workbooks of Excel before 2007 are read as a person would read them. */
import t from 'tap';
import plugin from '../../../plugins/extractors/office/xls.js';
import { extractorSuite } from '../../../src/plugin/test/extractor.js';

const document = (name: string) =>
  new URL(`../../../../test/documents/office/${name}`, import.meta.url);

extractorSuite(t, {
  plugin,
  documents: [
    {
      bytes: document('testEXCEL.xls'),
      filename: 'testEXCEL.xls',
      fileType: 'application/vnd.ms-excel',
      title: 'Simple Excel document',
      pages: 3,
      words: ['# Feuil1', 'Number\tSquare', '1\t1', '15\t225', 'Microsoft Excel X for Mac'],
    },
  ],
});
