/** Owns the proof that a document of any format may be cut off anywhere: it is read, or refused for a reason, and the next is read. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { extname, join } from 'node:path';
import t from 'tap';
import { systemClock } from '../../src/clock.js';
import { truncations } from '../../src/plugin/test/damage.js';
import { ExtractionPool } from '../../src/pool/extraction.js';
import { loadConfig } from '../../src/settings/config.js';
import { type GoodDocument, goodDocuments } from '../support/fuzz-files.js';
import { usualWalls } from '../support/walls.js';

t.setTimeout(600_000);

const CUTS = 10;
const folder = mkdtempSync(join(tmpdir(), 'preface-cut-'));
t.teardown(() => rmSync(folder, { recursive: true, force: true }));

const { extractors } = loadConfig({ flags: {}, env: { HOME: folder } });
const faults: string[] = [];
const pool = new ExtractionPool({
  extractors,
  walls: await usualWalls(extractors, []),
  processes: 2,
  languages: ['eng'],
  clock: systemClock,
  log: (line) => faults.push(line),
});
t.teardown(() => pool.close());

/** Refused whole, or all but empty: a cut in one of them says nothing of the others of its format. */
const ODD = /protected|encrypted|circular|nomapping|^forms\.pdf$/;

/** The smallest sound document of each kind of name. */
const documents = new Map<string, GoodDocument>();
for (const document of goodDocuments()) {
  if (ODD.test(document.name)) continue;
  const kind = extname(document.name);
  const known = documents.get(kind);
  if (known === undefined || document.bytes.length < known.bytes.length) {
    documents.set(kind, document);
  }
}

t.test('a real archive of Word and a real PDF are among what is cut', async (t) => {
  for (const [kind, head] of [
    ['.docx', 'PK\x03\x04'],
    ['.pdf', '%PDF-'],
  ] as const) {
    const { name, bytes } = documents.get(kind) ?? { name: 'none', bytes: Buffer.alloc(0) };
    t.equal(Buffer.from(bytes.subarray(0, head.length)).toString('latin1'), head, name);
    const source = join(folder, `whole${kind}`);
    writeFileSync(source, bytes);
    const target = `${source}.json`;
    const result = await pool.extract({ owner: 'u', source, filename: name, target });
    t.equal(result.type, 'extracted', name);
    t.ok(JSON.parse(readFileSync(target, 'utf8')).length > 500, `${name} says something`);
  }
});

t.test('every format cut at ten points', async (t) => {
  const waiting = [...documents.values()].flatMap(({ name, bytes }) =>
    truncations(bytes, CUTS).map((cut, at) => ({ name, at, bytes: cut })),
  );
  t.ok(documents.size > 40, `${documents.size} formats`);
  const work = async () => {
    for (let cut = waiting.shift(); cut; cut = waiting.shift()) {
      const source = join(folder, `${cut.at}${cut.name}`);
      writeFileSync(source, cut.bytes);
      const target = `${source}.json`;
      const result = await pool.extract({ owner: 'u', source, filename: cut.name, target });
      const label = `${cut.name} cut at ${cut.bytes.length}`;
      if (result.type === 'refused') t.match(result.reason, /^.{5,500}$/, label);
      else t.match(JSON.parse(readFileSync(target, 'utf8')), /\S/, label);
    }
  };
  await Promise.all([work(), work()]);
  // What broke on a document is a fault of its extractor: it has to say itself what is wrong with it.
  t.same(faults, []);
});
