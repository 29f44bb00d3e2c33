/** Owns the proof that books are read as a person would read them. */
import t from 'tap';
import plugin from '../../../plugins/extractors/book/epub.js';
import { extractorSuite } from '../../../src/plugin/test/extractor.js';

const document = (name: string) =>
  new URL(`../../../../test/documents/office/${name}`, import.meta.url);

extractorSuite(t, {
  plugin,
  documents: [
    {
      bytes: document('testEPUB.epub'),
      filename: 'testEPUB.epub',
      fileType: 'application/epub+zip',
      title: 'An ePub  for Tika',
      pages: 4,
      words: [
        'Table of Contents',
        '# Chapter 1',
        'This is the text for chapter One',
        '• First item • Second item',
        '# Chapter 2',
        '## Subchapter 2.1',
        'Table header\tTable data',
      ],
      reaches: ['unpackedBytesMax', 'unpackRatioMax', 'archiveEntriesMax', 'nestingMax'],
    },
  ],
});
