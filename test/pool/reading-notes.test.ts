/** Owns the proof of what is told of a reading that went well. */
import t from 'tap';
import { ReadingNotes } from '../../src/pool/reading-notes.js';

function lineOf(...pages: Parameters<ReadingNotes['add']>[0][]): string {
  const notes = new ReadingNotes();
  for (const page of pages) notes.add(page);
  return notes.line();
}

t.test('a text has nothing to tell', async (t) => {
  t.equal(lineOf({ pages: null }), '');
});

t.test('pages are counted by what they are, and so is what was recognised', async (t) => {
  t.equal(lineOf({ pages: 2, unit: 'sheet' }, { pages: 2, unit: 'sheet' }), 'sheets: 2');
  const scan = { pages: 3, unit: 'page', recognized: 71 } as const;
  t.equal(lineOf(scan, { ...scan, recognized: 90 }), 'pages: 2, ocr: 2 (worst score 71)');
  const slide = { pages: 1, unit: 'slide', recognized: 88, pictures: 4 } as const;
  t.equal(lineOf(slide), 'slides: 1, ocr: 1 (worst score 88), pictures read: 4');
});

t.test('what was left out is named, each reason once, and the first of many', async (t) => {
  const page = { pages: null, unit: 'page' } as const;
  t.equal(lineOf({ ...page, skipped: ['a', 'a'] }), 'pages: 1, skipped: 2 (a)');
  const many = { ...page, skipped: ['a', 'b', 'c', 'd', 'e'] };
  t.equal(lineOf(many), 'pages: 1, skipped: 5 (a; b; c; and others)');
});
