import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gunzipSync } from 'node:zlib';
import t from 'tap';
import { openRecognizer } from '../../plugins/extractors/ocr/recognizer.js';
import { systemClock } from '../../src/clock.js';
import { ExtractionPool } from '../../src/pool/extraction.js';
import { readerWalls } from '../../src/pool/reader-walls.js';
import { pluginFinder } from '../../src/settings/plugins.js';

t.setTimeout(300_000);

const folder = mkdtempSync(join(tmpdir(), 'preface-models-'));
t.teardown(() => rmSync(folder, { recursive: true, force: true }));
const [models, dataDir] = [join(folder, 'models'), join(folder, 'data')];
for (const path of [models, dataDir]) mkdirSync(path);

/** Of a name that no package has. */
const LANGUAGE = 'own';
const manifest = createRequire(import.meta.url).resolve('@tesseract.js-data/eng/package.json');
const packed = join(dirname(manifest), '4.0.0_best_int', 'eng.traineddata.gz');
writeFileSync(join(models, `${LANGUAGE}.traineddata`), gunzipSync(readFileSync(packed)));

const picture = fileURLToPath(
  new URL('../../../test/documents/pictures/testocr.png', import.meta.url),
);
const extractors = pluginFinder.builtIns('extractor');

t.test('a reader behind its walls reads pictures with a model of the named folder', async (t) => {
  const pool = new ExtractionPool({
    processes: 1,
    extractors,
    languages: [LANGUAGE],
    languagesFolder: models,
    walls: await readerWalls({ extractors, ocrData: models, dataDir }),
    clock: systemClock,
    log: (line) => t.comment(line),
  });
  t.teardown(() => pool.close());
  const target = join(folder, 'text.json');
  const request = { owner: 'u', source: picture, filename: 'testocr.png', target };
  t.match(await pool.extract(request), { type: 'extracted' });
  t.match(readFileSync(target, 'utf8'), /test\w* the\b/);
});

t.test('a language that the folder lacks is that of its package', async (t) => {
  await openRecognizer({ languages: ['eng'], languagesFolder: models }).close();
  t.throws(
    () => openRecognizer({ languages: [LANGUAGE], languagesFolder: dataDir }),
    /the package @tesseract.js-data\/own is not installed/,
  );
});

t.test('a folder that is none is refused by its name', async (t) => {
  const ocrData = join(folder, 'nowhere');
  await t.rejects(readerWalls({ extractors, ocrData, dataDir }), {
    message: `setting PREFACE_OCR_DATA: ${ocrData} is no folder`,
  });
});
