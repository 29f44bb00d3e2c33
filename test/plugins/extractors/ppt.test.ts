/** Owns the proof that presentations of PowerPoint before 2007 are read as a person would read them. */
import t from 'tap';
import plugin from '../../../plugins/extractors/office/ppt.js';
import { extractorSuite } from '../../../src/plugin/test/extractor.js';

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
  ],
});
