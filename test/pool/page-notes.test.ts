/** Owns the proof that what goes with a page keeps its bounds, also where a reader says more. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { crc32 } from '../../src/crc32.js';
import { limits } from '../../src/limits/index.js';
import type { DocumentPage, Extractor } from '../../src/plugin/contract.js';
import { readDocument } from '../../src/pool/document-reader.js';
import { documentBounds } from '../../src/pool/extraction.js';
import type { PageNotes } from '../../src/pool/messages.js';
import { NotesFile } from '../../src/pool/notes-file.js';
import { checkedNotes, notesOf } from '../../src/pool/page-notes.js';
import { readerMessage } from '../../src/pool/reader-messages.js';
import { anyRoom } from '../../src/room.js';

const page: DocumentPage = { text: 'a', pages: 1 };
const size = { width: 595.276, height: 842, unit: 'point' } as const;

t.test('of a page with nothing to tell nothing is kept', async (t) => {
  t.equal(notesOf(page), null);
  t.equal(notesOf({ ...page, skipped: [], unit: 'page', pictures: 2 }), null);
  t.equal(notesOf({ ...page, layout: { ...size, width: Number.NaN, lines: [] } }), null);
});

t.test('numbers are short, lists and names have their bounds', async (t) => {
  const box = [1.26, -2e9, Number.NaN, 4] as const;
  const layout = { ...size, lines: [null, { box, score: 101.5 }] };
  t.same(notesOf({ ...page, recognized: 70.6, layout }), {
    recognized: 71,
    layout: { ...size, width: 595.3, lines: [null, { box: [1.3, -1e6, 0, 4], score: 100 }] },
  });
  const many = { ...size, lines: Array(limits.extractionPageLinesMax + 1).fill(null) };
  t.same(notesOf({ ...page, layout: many })?.layout?.lines, []);
  const skipped = Array(100).fill('\ud800'.padEnd(1000, 'x'));
  const kept = notesOf({ ...page, skipped })?.skipped;
  t.equal(kept?.length, limits.extractionPageSkippedMax);
  t.equal(kept?.[0], '\ufffd'.padEnd(limits.extractionReasonLengthMax, 'x'));
});

t.test('what a reader would not have said is refused', async (t) => {
  const place = { box: [1, 2, 3, 4], score: 50 };
  const good = { recognized: 4, skipped: ['a'], layout: { ...size, lines: [place, null] } };
  t.same(checkedNotes({ ...good, more: 1 }), good, 'and nothing more is taken');
  t.equal(checkedNotes(null), null);
  const withLine = (line: unknown) => ({ layout: { ...size, lines: [line] } });
  const bad: unknown[] = [
    undefined,
    'text',
    { recognized: '4' },
    { recognized: 101 },
    { skipped: 'a' },
    { skipped: Array(limits.extractionPageSkippedMax + 1).fill('a') },
    { skipped: ['x'.repeat(limits.extractionReasonLengthMax + 1)] },
    { layout: { ...size, unit: 'mile', lines: [] } },
    { layout: { ...size, height: -1, lines: [] } },
    { layout: { ...size, lines: Array(limits.extractionPageLinesMax + 1).fill(null) } },
    withLine({ box: [1, 2, 3] }),
    withLine({ box: [1, 2, 3, Number.NaN] }),
    withLine({ box: [1, 2, 3, 4, 5] }),
    withLine({ box: [1, 2, 3, 4], score: {} }),
    withLine('x'),
  ];
  for (const [at, value] of bad.entries()) {
    t.throws(() => checkedNotes(value), Error, `case ${at}`);
  }
});

t.test('a line of the file is a page, and without notes there is no file', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'preface-notes-'));
  t.teardown(() => rmSync(folder, { recursive: true }));
  const path = join(folder, 'a');
  const none = new NotesFile(path, 1, anyRoom);
  await none.write(null);
  t.equal(await none.end(), null);
  const file = new NotesFile(path, 1, anyRoom);
  await file.write(null);
  await file.write({ recognized: 7 });
  await file.write(null);
  const lines = [{ box: [1, 2, 3, 4] as const, score: 9 }, null];
  await file.write({ skipped: ['a'], layout: { ...size, lines } });
  await file.write(null);
  const written = await file.end();
  await file.close();
  const text = readFileSync(path);
  t.same(
    text
      .toString('utf8')
      .split('\n')
      .map((line) => line && JSON.parse(line)),
    [
      {},
      { ocr_score: 7 },
      {},
      { ...size, skipped: ['a'], lines: [{ box: [1, 2, 3, 4], ocr_score: 9 }, null] },
      '',
    ],
  );
  t.same(written, { bytes: text.length, crc32: crc32(text) });
});

t.test('pages beyond its bound have no notes, and the text is read on', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'preface-notes-'));
  t.teardown(() => rmSync(folder, { recursive: true }));
  const file = new NotesFile(join(folder, 'a'), limits.fileBytesMax, async () => {});
  t.teardown(() => file.close());
  // Nothing reaches the disk: only what is counted matters here.
  const full = { skipped: Array(64).fill('x'.repeat(500)) };
  for (let at = 0; at < 1200; at += 1) await file.write(full);
  const bytes = (await file.end())?.bytes ?? 0;
  t.ok(bytes > limits.extractionNotesBytesMax - 40_000 && bytes <= limits.extractionNotesBytesMax);
});

/** What a document of so few bytes is sent as, once its extractor has given these pages. */
async function sentOf(fileType: string, pages: readonly DocumentPage[], bytes = 1) {
  const extractor: Extractor = {
    accepts: () => ({ fileType, ground: 'content' }),
    async *extract() {
      yield* pages;
    },
    close: async () => {},
  };
  const sent: { text: string; notes: PageNotes | null }[] = [];
  const { result } = await readDocument(
    [{ name: 'x', extractor, bounds: documentBounds }],
    { bytes: new Uint8Array(bytes), filename: 'a' },
    { writePage: async (text, _pages, notes) => void sent.push({ text, notes }) },
  );
  return { result, sent };
}

t.test('a small document that says the same on each page soon has no more notes', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'preface-notes-'));
  t.teardown(() => rmSync(folder, { recursive: true }));
  const lines = Array(limits.extractionPageLinesMax).fill({ box: [100.1, 200.2, 300.3, 400.4] });
  const bytes = 1000;
  const bytesMax = limits.extractionTextBytesMin + bytes * limits.extractionTextRatioMax;
  const many = Array<DocumentPage>(120).fill({ ...page, layout: { ...size, lines } });
  const { sent } = await sentOf('application/pdf', many, bytes);
  t.equal(sent.length, 120, 'its text is read on');
  const count = sent.findIndex(({ notes }) => notes === null);
  t.ok(count > 0);
  t.ok(sent.slice(count).every(({ notes }) => notes === null));
  const file = new NotesFile(join(folder, 'a'), bytes, async () => {});
  t.teardown(() => file.close());
  for (const { notes } of sent.slice(0, count)) await file.write(notes);
  const written = (await file.end())?.bytes ?? 0;
  t.ok(written <= bytesMax && written + written / count > bytesMax, 'both sides count alike');
  t.notOk(file.isFull);
  await file.write(sent[0]?.notes ?? null);
  t.ok(file.isFull, 'whatever its reader says');
  t.equal((await file.end())?.bytes, written);
});

t.test('notes that nobody keeps are not looked at', async (t) => {
  const looked: string[] = [];
  const notes = new Proxy({}, { get: (_, name) => looked.push(String(name)) && undefined });
  const message = { type: 'text', piece: { text: 'a', end: { pages: 1, notes } } };
  t.match(readerMessage(message, { takesNotes: false }), { piece: { end: { notes: null } } });
  t.same(looked, []);
  t.match(readerMessage(message, { takesNotes: true }), { piece: { end: { notes: {} } } });
  t.not(looked.length, 0);
});

t.test('a form feed within a page parts no pages, and in plain text it does', async (t) => {
  const pages = [{ ...page, text: 'one\fmore', recognized: 7 }];
  const layout = await sentOf('application/pdf', pages);
  t.same(layout.sent, [{ text: 'one more', notes: { recognized: 7 } }]);
  const plain = await sentOf('text/plain', [{ ...page, text: 'one\fmore' }]);
  t.same(plain.sent, [{ text: 'one\fmore', notes: null }]);
});
