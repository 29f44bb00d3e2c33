/** Owns the proof that what is told of a line's place is where its ink is. */
import { Gravity, ImageMagick, MagickColors, MagickFormat } from '@imagemagick/magick-wasm';
import t from 'tap';
import image from '../../../plugins/extractors/image/image.js';
import { PictureFile } from '../../../plugins/extractors/image/magick.js';
import { levelLines, placesOf } from '../../../plugins/extractors/ocr/lines.js';
import pdfPlugin from '../../../plugins/extractors/pdf/pdf.js';
import { linesOf, stacked, unplaced } from '../../../plugins/extractors/shared/placed.js';
import type { LinePlace } from '../../../src/plugin/contract.js';
import { documentBytes, openForTest, readAll, testBounds } from '../../support/documents.js';
import { pdf, stream } from '../../support/hostile/pdf.js';

t.setTimeout(300_000);

const reader = await openForTest(pdfPlugin);
const pictures = await openForTest(image);
t.teardown(() => Promise.all([reader.close(), pictures.close()]));

const SENTENCE = 'Covfefe is a perfectly cromulent word.';

function page(box: string, content: string, extra = ''): Buffer {
  return pdf([
    '<</Type/Catalog/Pages 2 0 R>>',
    '<</Type/Pages/Kids[3 0 R]/Count 1>>',
    `<</Type/Page/Parent 2 0 R/MediaBox[${box}]/Resources<</Font<</F 4 0 R>>/XObject<</I 5 0 R>>>>/Contents 6 0 R${extra}>>`,
    '<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>',
    stream(
      '/Type/XObject/Subtype/Image/Width 320/Height 180/ColorSpace/DeviceRGB/BitsPerComponent 8/Filter/DCTDecode',
      Buffer.from(documentBytes('pictures/simple.jpg')),
    ),
    stream('', content),
  ]);
}

/** Whether it lies within the other box, but for so much. */
function isWithin(place: LinePlace | null | undefined, wanted: readonly number[], tolerance = 4) {
  return wanted.every((side, at) => Math.abs((place?.box[at] ?? Number.NaN) - side) <= tolerance);
}

const WORDS = 'BT /F 12 Tf 20 250 Td (first line) Tj 0 -100 Td (second) Tj ET';

t.test('each line of a page has its box, in points from the upper left corner', async (t) => {
  const [read] = await readAll(reader, page('0 0 200 300', WORDS));
  t.equal(read?.text, 'first line\n\nsecond');
  t.match(read?.layout, { width: 200, height: 300, unit: 'point' });
  const [first, blank, second, ...others] = read?.layout?.lines ?? [];
  t.ok(isWithin(first, [20, 40, 61, 53]), JSON.stringify(first));
  t.equal(blank, null);
  t.ok(isWithin(second, [20, 140, 62, 153]), JSON.stringify(second));
  t.same(others, []);
});

t.test('a page that is cropped and turned has them as it is seen', async (t) => {
  const extra = '/CropBox[10 100 190 300]/Rotate 90';
  const [read] = await readAll(reader, page('0 0 200 300', WORDS, extra));
  t.match(read?.layout, { width: 200, height: 180 });
  // Its bottom is at the left.
  t.ok(isWithin(read?.layout?.lines[0], [147, 10, 161, 51]), JSON.stringify(read?.layout));
});

t.test('what is read in a picture on a page stands where the picture is', async (t) => {
  const drawn = 'q 320 0 0 180 50 400 cm /I Do Q BT /F 12 Tf 500 20 Td (page 7) Tj ET';
  const [read] = await readAll(reader, page('0 0 595 842', drawn));
  const lines = read?.text.split('\n') ?? [];
  t.equal(read?.layout?.lines.length, lines.length);
  t.ok(isWithin(read?.layout?.lines[0], [500, 810, 540, 825]), 'the words of the page');
  const at = lines.findIndex((line) => line.includes('Tesseract.js'));
  const place = read?.layout?.lines[at];
  const [left = 0, top = 0, right = 0, bottom = 0] = place?.box ?? [];
  t.ok(left >= 50 && right <= 370 && top >= 262 && bottom <= 442, JSON.stringify(place));
  t.ok(right - left > 50 && bottom - top > 8 && bottom - top < 90, JSON.stringify(place));
  t.ok((place?.score ?? 0) > 40, `${place?.score}`);
});

t.test('what no page draws has no place', async (t) => {
  const note = '/Annots[<</Type/Annot/Subtype/Text/Rect[50 50 90 90]/Contents(Is this right?)>>]';
  const [read] = await readAll(reader, page('0 0 200 300', WORDS, note));
  t.match(read?.text, /second\n\nComment: Is this right\?$/);
  t.same(read?.layout?.lines.slice(3), [null, null]);
});

/** Of all that is dark. */
function inkOf(bytes: Uint8Array): Promise<readonly number[]> {
  return PictureFile.open(bytes, 'PNG', testBounds).then((file) => {
    const { width, height, pixels } = file.page(0);
    const scale = file.side(0) / Math.max(width, height);
    let [left, top, right, bottom] = [width, height, 0, 0];
    for (let at = 0; at < pixels.length; at += 1) {
      if ((pixels[at] ?? 255) > 128) continue;
      const [x, y] = [at % width, Math.floor(at / width)];
      [left, right] = [Math.min(left, x), Math.max(right, x)];
      [top, bottom] = [Math.min(top, y), Math.max(bottom, y)];
    }
    return [left, top, right, bottom].map((side) => side * scale);
  });
}

t.test('a line of a picture stands where its ink is, however the picture lies', async (t) => {
  // The decoder starts with the first picture.
  await PictureFile.open(documentBytes('crom.png'), 'PNG', testBounds);
  for (const degrees of [0, 90, 180, 270, 4, -4]) {
    const bytes = ImageMagick.read(documentBytes('crom.png'), (picture) => {
      picture.backgroundColor = MagickColors.White;
      // Away from the centre, round which pictures are levelled.
      picture.extent(picture.width, picture.height * 8, Gravity.North);
      picture.rotate(degrees);
      return picture.write(MagickFormat.Png, (data) => new Uint8Array(data));
    });
    const [read] = await readAll(pictures, bytes);
    t.equal(read?.text, SENTENCE, `${degrees}°`);
    const place = read?.layout?.lines[0];
    const ink = await inkOf(bytes);
    // A box of a line that lies askew is as wide as the line and its height together.
    const tolerance = degrees % 90 === 0 ? 8 : 40;
    t.ok(isWithin(place, ink, tolerance), `${degrees}°: ${JSON.stringify(place)} for ${ink}`);
    t.ok((place?.score ?? 0) > 60, `${place?.score}`);
  }
});

t.test('where the table of a recognition and its text differ, nothing is guessed', (t) => {
  const table = '4\t1\t1\t1\t1\t0\t1\t2\t10\t5\t-1\t\n5\t1\t1\t1\t1\t1\t1\t2\t10\t5\t90\tone';
  const size = { width: 100, height: 100 };
  const found = levelLines(table);
  t.same(placesOf('one', found, size, 0), [{ box: [1, 2, 11, 7], score: 90 }]);
  t.same(placesOf('one\n\ntwo', found, size, 0), [null, null, null]);
  t.end();
});

t.test('lines and places stay together', (t) => {
  const place: LinePlace = { box: [0, 0, 1, 1] };
  const one = { text: 'a\nb', lines: [place, null] };
  const both = stacked([unplaced(''), one, unplaced('c')], { blankLine: true });
  t.same(both, { text: 'a\nb\n\nc', lines: [place, null, null, null] });
  t.same(
    linesOf(both, (line) => line !== 'b'),
    {
      text: 'a\n\nc',
      lines: [place, null, null],
    },
  );
  t.same(
    linesOf(both, (line) => line === ''),
    unplaced(''),
  );
  t.end();
});
