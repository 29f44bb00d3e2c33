/** Owns the proof that documents of Word before 2007 are read as a person would read them. */
import t from 'tap';
import plugin from '../../../plugins/extractors/office/doc.js';
import { extractorSuite } from '../../../src/plugin/test/extractor.js';

const document = (name: string) =>
  new URL(`../../../../test/documents/office/${name}`, import.meta.url);

const fileType = 'application/msword';

extractorSuite(t, {
  plugin,
  documents: [
    {
      bytes: document('testWORD.doc'),
      filename: 'testWORD.doc',
      fileType,
      title: 'Sample Word Document',
      words: [
        'This is the header for our document',
        'Sample Word Document Title',
        '# Heading Level 1',
        'text that is BOLD and ITALIC.',
        'This is a table',
        'Nested table',
        'Apache Tika: http://tika.apache.org/ Tika',
        'That’s it!',
        'This is the footer for our document',
      ],
    },
    {
      bytes: document('testWORD6.doc'),
      filename: 'testWORD6.doc',
      fileType,
      words: ['The quick brown fox jumps over the lazy dog'],
    },
  ],
});
