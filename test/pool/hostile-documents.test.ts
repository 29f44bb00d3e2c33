/** Owns the proof that each document of the hostile corpus ends in its text or in a reason, and that the next one is read. */
import { createHash } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { systemClock } from '../../src/clock.js';
import { ExtractionPool, type PoolBounds } from '../../src/pool/extraction.js';
import { loadConfig } from '../../src/settings/config.js';
import { hostileArchives, longLines, outwardDocuments } from '../support/hostile/archives.js';
import type { HostileDocument } from '../support/hostile/document.js';
import { hostilePdfs } from '../support/hostile/pdf.js';
import { hostileDrawings, hostilePictures } from '../support/hostile/pictures.js';
import { usualWalls } from '../support/walls.js';

t.setTimeout(600_000);

const MIB = 2 ** 20;
const folder = mkdtempSync(join(tmpdir(), 'preface-hostile-'));
t.teardown(() => rmSync(folder, { recursive: true, force: true }));

let asked = 0;
const server = createServer((_, response) => {
  asked += 1;
  response.end('root: what nobody asked for');
}).listen(0, '127.0.0.1');
t.teardown(() => server.close());
await new Promise((resolve) => server.once('listening', resolve));
const outwards = `http://127.0.0.1:${(server.address() as AddressInfo).port}/secret`;

// One language: what harms is the picture, and each further language is the same work once more.
const env = { HOME: folder, PREFACE_OCR_LANGUAGES: 'eng' };
const { extractors, ocrLanguages: languages } = loadConfig({ flags: {}, env });
const walls = await usualWalls(extractors, []);
/** What a bound costs to reach is smaller here: the suite has no two minutes a document. */
const impatient = open({ pageMsMax: 15_000, memoryBytesMax: 1024 * MIB });
const usual = open({});

function open(bounds: Partial<PoolBounds>): ExtractionPool {
  const options = {
    extractors,
    languages,
    walls,
    processes: 2,
    clock: systemClock,
    log: () => {},
    bounds,
  };
  const pool = new ExtractionPool(options);
  t.teardown(() => pool.close());
  return pool;
}

let count = 0;

async function outcomeOf(pool: ExtractionPool, bytes: Uint8Array, filename: string) {
  count += 1;
  const source = join(folder, `${count}.source`);
  const target = join(folder, `${count}.json`);
  writeFileSync(source, bytes);
  const result = await pool.extract({ owner: `u${count}`, source, filename, target });
  if (result.type === 'refused') return { reason: result.reason, text: null };
  return { reason: null, text: JSON.parse(readFileSync(target, 'utf8')) as string };
}

async function check(t: Test, pool: ExtractionPool, document: HostileDocument): Promise<void> {
  const beganMs = performance.now();
  const { name, bytes, filename = 'x', text, reason } = document;
  const outcome = await outcomeOf(pool, bytes, filename);
  t.comment(`${name}: ${outcome.reason ?? 'read'}, ${Math.round(performance.now() - beganMs)} ms`);
  if (text !== undefined) t.match(outcome, { text }, name);
  if (reason !== undefined) t.match(outcome, { reason }, name);
  if (outcome.text === null) t.match(outcome.reason, /^.{5,500}$/, name);
  else t.notMatch(outcome.text, /root:/, name);
  const words = createHash('sha256').update(name).digest('hex');
  t.same(
    await outcomeOf(pool, Buffer.from(words), 'next.txt'),
    { reason: null, text: words },
    'the next',
  );
}

/** Two at once, so that each has a neighbour. */
async function checkAll(
  t: Test,
  pool: ExtractionPool,
  documents: readonly (() => HostileDocument)[],
): Promise<void> {
  const waiting = [...documents];
  const work = async () => {
    for (let make = waiting.shift(); make; make = waiting.shift()) await check(t, pool, make());
  };
  await Promise.all([work(), work()]);
}

const kinds: Readonly<Record<string, readonly HostileDocument[]>> = {
  PDF: hostilePdfs,
  pictures: hostilePictures,
  drawings: hostileDrawings(outwards),
  archives: hostileArchives,
  'what refers outwards': outwardDocuments(outwards),
};

for (const [kind, documents] of Object.entries(kinds)) {
  t.test(kind, async (t) => {
    await checkAll(
      t,
      impatient,
      documents.map((document) => () => document),
    );
  });
}

t.test('lines of 50 MB', async (t) => await checkAll(t, usual, longLines));

t.test('who needs a password hears it', async (t) => {
  const bytes = readFileSync(new URL('../../../test/documents/encrypted.pdf', import.meta.url));
  t.match(await outcomeOf(usual, bytes, 'x.pdf'), { reason: /password/ });
});

t.test('nobody was asked for anything, and nothing lies about', async (t) => {
  t.equal(asked, 0);
  const left = readdirSync(folder).filter((name) => !/^\d+\.(source|json)$/.test(name));
  t.same(left, []);
});
