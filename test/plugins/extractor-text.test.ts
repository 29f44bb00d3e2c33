/** Owns the proof that text of any encoding is read as it was written. */
import { TextEncoder } from 'node:util';
import t from 'tap';
import plugin from '../../plugins/extractor-text.js';
import { testExtractor } from '../contract/extractor.js';

const bytes = (text: string) => new TextEncoder().encode(text);

testExtractor(t, {
  plugin,
  documents: [
    {
      bytes: bytes('# Harbour\r\n\r\nThe light is kept by grüne Männer.\r\n'),
      filename: 'notes.md',
      fileType: 'text/markdown',
      ground: 'name',
      words: ['# Harbour', 'kept by grüne Männer.'],
      pages: 1,
      title: '',
    },
    {
      bytes: bytes('name,city\n"Li, Na",北京\n'),
      filename: 'TABLE.CSV',
      fileType: 'text/csv',
      ground: 'name',
      words: ['name,city', '"Li, Na",北京'],
    },
    {
      bytes: bytes('just words\n'.repeat(100)),
      filename: 'words',
      fileType: 'text/plain',
      ground: 'text',
      words: ['just words', 'just words'],
    },
  ],
});
