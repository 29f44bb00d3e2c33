import { Gravity, ImageMagick, MagickFormat } from '@imagemagick/magick-wasm';
import t from 'tap';
import plugin from '../../../plugins/extractors/image/image.js';
import { PictureFile } from '../../../plugins/extractors/image/magick.js';
import { pgmOf } from '../../../plugins/extractors/ocr/picture.js';
import { PdfFile } from '../../../plugins/extractors/pdf/pdfium.js';
import { extractorSuite } from '../../../src/plugin/test/extractor.js';
import {
  documentBytes,
  openForTest,
  readAll,
  testBounds,
  wordErrorRate,
} from '../../support/documents.js';
import { choice, recognizeBy } from '../../support/picture-programs.js';

t.setTimeout(300_000);

const { program, text } = await choice();
if (program === null) {
  t.plan(0, text);
} else {
  const recognize = recognizeBy(t, program);
  const languages = ['eng'];
  const byProgram = await plugin.open({ bounds: testBounds, languages, recognize });
  const byLibrary = await openForTest(plugin);
  t.teardown(() => Promise.all([byProgram.close(), byLibrary.close()]));
  const png = documentBytes('crom.png');
  await PictureFile.open(png, 'PNG', testBounds);

  t.test('the program finds the words that the library finds, and where they stand', async (t) => {
    for (const name of ['testocr.png', 'testOCR.jpg', 'simple.png', 'simple-90.jpg']) {
      const bytes = documentBytes(`pictures/${name}`);
      const [found] = await readAll(byProgram, bytes);
      const [wanted] = await readAll(byLibrary, bytes);
      const rate = wordErrorRate(found?.text ?? '', wanted?.text ?? '');
      t.ok(rate < 0.05, `${name}: ${rate}: ${found?.text}`);
      const [one = [], other = []] = [found, wanted].map((page) => page?.layout?.lines[0]?.box);
      t.ok(
        one.every((side, at) => Math.abs(side - (other[at] ?? 0)) < 8),
        `${name}: ${one} for ${other}`,
      );
    }
  });

  t.test('what a picture says does not depend on those before it', async (t) => {
    const names = ['simple.png', 'testocr.png', 'testOCR.jpg', 'simple.png'];
    for (const name of names) {
      const bytes = documentBytes(`pictures/${name}`);
      const alone = await plugin.open({
        bounds: testBounds,
        languages,
        recognize: recognizeBy(t, program),
      });
      t.same(await readAll(byProgram, bytes), await readAll(alone, bytes), name);
      await alone.close();
    }
  });

  t.test('a scan that lies on its side, on its head or askew is read', async (t) => {
    for (const degrees of [90, 180, 270, 4, -7]) {
      const bytes = ImageMagick.read(png, (image) => {
        image.rotate(degrees);
        return image.write(MagickFormat.Png, (data) => new Uint8Array(data));
      });
      const [page] = await readAll(byProgram, bytes);
      t.match(page?.text, 'Covfefe is a perfectly cromulent word.', `${degrees}°`);
      t.ok((page?.recognized ?? 0) > 60, `${page?.recognized}`);
    }
  });

  t.test('so is one of the back of a transparent sheet', async (t) => {
    const file = await PdfFile.open(documentBytes('text.pdf'), testBounds);
    const rendered = file.render(0);
    if (rendered === null) throw new Error('not rendered');
    const scan = (isMirrored: boolean) =>
      ImageMagick.read(pgmOf(rendered), MagickFormat.Pgm, (image) => {
        image.crop(image.width, 600, Gravity.North);
        if (isMirrored) image.flop();
        return image.write(MagickFormat.Png, (data) => new Uint8Array(data));
      });
    const [sound] = await readAll(byProgram, scan(false));
    const [mirrored] = await readAll(byProgram, scan(true));
    t.ok(wordErrorRate(mirrored?.text ?? '', sound?.text ?? '') < 0.05, mirrored?.text ?? '');
  });

  extractorSuite(t, {
    plugin: { ...plugin, open: (options) => plugin.open({ ...options, recognize }) },
    languages,
    truncations: 2,
    mutations: 2,
    documents: [
      {
        bytes: png,
        filename: 'shot.png',
        fileType: 'image/png',
        words: ['Covfefe is a perfectly cromulent word.'],
        pages: 1,
        reaches: ['pixelsMax'],
      },
    ],
  });
}
