/**
 * The way of a text from the thread that reads it to the disk: few words between the processes, few writes, all bounds kept.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import { MessageChannel } from 'node:worker_threads';
import t, { type Test } from 'tap';
import { unpackFrame } from '../../src/codec.js';
import { crc32 } from '../../src/crc32.js';
import { limits } from '../../src/limits/index.js';
import { documentBounds } from '../../src/pool/extraction.js';
import { Reading } from '../../src/pool/reading.js';
import { TextFile } from '../../src/pool/text-file.js';
import { TextPieces } from '../../src/pool/text-pieces.js';

function newFolder(test: Test): string {
  const folder = mkdtempSync(join(tmpdir(), 'preface-pieces-'));
  test.teardown(() => rmSync(folder, { recursive: true }));
  return folder;
}

const { extractionPiecesAheadMax: aheadMax } = limits;

t.test('pieces leave as frames for the parent, so many ahead of who takes them', async (t) => {
  const { port1, port2 } = new MessageChannel();
  t.teardown(() => port1.close());
  const frames: Uint8Array[] = [];
  port1.on('message', (frame: Uint8Array) => frames.push(frame));
  const pieces = new TextPieces(port2);
  let written = 0;
  const writing = (async () => {
    for (; written < aheadMax + 3; written += 1) await pieces.writePage(`page ${written}`, 9, null);
  })();
  while (frames.length < aheadMax) await turn();
  for (let at = 0; at < 5; at += 1) await turn();
  t.equal(written, aheadMax, 'the next one waits');
  t.equal(frames.length, aheadMax);
  t.same(unpackFrame(frames[1] ?? new Uint8Array()), [
    { type: 'text', piece: { text: 'page 1', end: { pages: 9, notes: null } } },
  ]);
  port1.postMessage(2);
  while (frames.length < aheadMax + 2) await turn();
  for (let at = 0; at < 5; at += 1) await turn();
  t.equal(written, aheadMax + 2, 'as many as were taken');
  port1.postMessage(aheadMax);
  await writing;
});

t.test('the reader is told of many pieces at once, before it has to wait', async (t) => {
  const folder = newFolder(t);
  const source = join(folder, 'source');
  writeFileSync(source, 'x');
  const told: number[] = [];
  const listener = {
    onPage: () => {},
    onTaken: (pieces: number) => void told.push(pieces),
    onFault: (cause: Error) => t.fail(cause.message),
    onRefused: (reason: string) => t.fail(reason),
  };
  const target = join(folder, 'text');
  const task = { source, filename: 'a', target };
  const reading = await Reading.open(task, documentBounds, listener);
  const piece = { text: 'é"', end: { pages: null, notes: null } };
  for (let at = 0; at < aheadMax; at += 1) reading.take(piece);
  const read = { type: 'extracted', fileType: 'a/b', title: '', details: '' } as const;
  const result = await reading.end(read);
  await reading.close();
  t.same(told, [aheadMax / 2, aheadMax / 2]);
  const bytes = readFileSync(target);
  t.same(JSON.parse(bytes.toString('utf8')), Array(aheadMax).fill('é"').join('\f'));
  const document = { pages: aheadMax, bytes: bytes.length, crc32: crc32(bytes) };
  t.match(result, { type: 'extracted', document });
});

t.test(
  'pages of one small text are written together, those of a large one as they come',
  async (t) => {
    const folder = newFolder(t);
    const writes: number[] = [];
    const bound = { bytesMax: 1e9, excess: '' };
    const end = { pages: null, notes: null };
    const write = async (name: string, page: string) => {
      const path = join(folder, name);
      const file = await TextFile.create(path, bound, async (bytes, write) => {
        writes.push(bytes);
        return await write();
      });
      for (let at = 0; at < 10; at += 1) await file.write({ text: page, end });
      const told = await file.end();
      await file.close();
      const bytes = readFileSync(path);
      t.same(told, { bytes: bytes.length, crc32: crc32(bytes) });
      t.same(JSON.parse(bytes.toString('utf8')), Array(10).fill(page).join('\f'));
      return writes.splice(0);
    };
    t.equal((await write('small', 'a page')).length, 1);
    const large = await write('large', 'x'.repeat(100_000));
    t.ok(large.length >= 10 && large.every((bytes) => bytes < 200_000), 'nothing is kept for long');
  },
);
