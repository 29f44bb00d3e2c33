import { gzipSync } from 'node:zlib';
import {
  Gravity,
  ImageMagick,
  MagickFormat,
  MagickImageCollection,
} from '@imagemagick/magick-wasm';
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

t.setTimeout(300_000);

const extractor = await openForTest(plugin);
t.teardown(() => extractor.close());

const SENTENCE = 'Covfefe is a perfectly cromulent word.';
const png = documentBytes('crom.png');
// The decoder starts with the first picture; the tests use it to write the others.
const picture = (await PictureFile.open(png, 'PNG', testBounds)).page(0);

function written(bytes: Uint8Array, format: MagickFormat): Uint8Array {
  return ImageMagick.read(bytes, (image) => image.write(format, (data) => new Uint8Array(data)));
}

function svg(content: string): Uint8Array {
  return new Uint8Array(Buffer.from(`<svg xmlns="http://www.w3.org/2000/svg">${content}</svg>`));
}

extractorSuite(t, {
  plugin,
  languages: ['eng'],
  truncations: 3,
  mutations: 6,
  documents: [
    {
      bytes: png,
      filename: 'shot.png',
      fileType: 'image/png',
      words: [SENTENCE],
      pages: 1,
      reaches: ['pixelsMax'],
    },
    {
      bytes: svg('<title>Plan</title><g><text>North wing</text><text>South wing</text></g>'),
      filename: 'plan.svg',
      fileType: 'image/svg+xml',
      words: ['North wing', 'South wing'],
      pages: 1,
      title: 'Plan',
      reaches: ['nestingMax'],
    },
  ],
});

t.test('pictures of every format come out as the same grey pixels', async (t) => {
  const formats = {
    GIF: MagickFormat.Gif,
    BMP: MagickFormat.Bmp,
    TIFF: MagickFormat.Tiff,
    WEBP: MagickFormat.WebP,
    XBM: MagickFormat.Xbm,
    JPEG: MagickFormat.Jpeg,
    AVIF: MagickFormat.Avif,
  } as const;
  for (const [name, format] of Object.entries(formats)) {
    const bytes = written(png, format);
    const claim = extractor.accepts({ bytes, filename: 'no-name' });
    t.equal(claim?.ground, 'content', name);
    const file = await PictureFile.open(bytes, name as keyof typeof formats, testBounds);
    const page = file.page(0);
    t.same([page.width, page.height], [picture.width, picture.height], name);
    const apart = page.pixels.reduce(
      (sum, grey, at) => sum + Math.abs(grey - (picture.pixels[at] ?? 0)),
      0,
    );
    t.ok(apart / page.pixels.length < 40, `${name}: ${apart / page.pixels.length}`);
  }
});

t.test('text in a picture is read', async (t) => {
  const [page] = await readAll(extractor, png, 'shot.png');
  t.match(page, { text: SENTENCE, pages: 1, recognized: Number });
});

t.test('a rendered page at 150 dpi is read with less than one word in twenty wrong', async (t) => {
  const file = await PdfFile.open(documentBytes('text.pdf'), testBounds);
  const wanted = file.text(0)?.text ?? '';
  const rendered = file.render(0);
  if (rendered === null) throw new Error('not rendered');
  const page = ImageMagick.read(pgmOf(rendered), MagickFormat.Pgm, (image) => {
    image.resize(Math.round((image.width * 150) / 200), Math.round((image.height * 150) / 200));
    return image.write(MagickFormat.Png, (data) => new Uint8Array(data));
  });
  const [read] = await readAll(extractor, page);
  const rate = wordErrorRate(read?.text ?? '', wanted);
  t.ok(rate < 0.05, `${rate}: ${read?.text}`);
});

t.test('a scan that lies on its side, on its head or askew is read', async (t) => {
  for (const degrees of [90, 180, 270, 4, -7]) {
    const bytes = ImageMagick.read(png, (image) => {
      image.rotate(degrees);
      return image.write(MagickFormat.Png, (data) => new Uint8Array(data));
    });
    const [page] = await readAll(extractor, bytes);
    t.match(page?.text, SENTENCE, `${degrees}°`);
    t.ok((page?.recognized ?? 0) > 60, `${page?.recognized}`);
  }
});

t.test(
  'a scan of the back of a transparent sheet is read, and its lines stand where they are',
  async (t) => {
    const file = await PdfFile.open(documentBytes('text.pdf'), testBounds);
    const rendered = file.render(0);
    if (rendered === null) throw new Error('not rendered');
    const scan = (isMirrored: boolean) =>
      ImageMagick.read(pgmOf(rendered), MagickFormat.Pgm, (image) => {
        image.crop(image.width, 600, Gravity.North);
        if (isMirrored) image.flop();
        return image.write(MagickFormat.Png, (data) => new Uint8Array(data));
      });
    const [sound] = await readAll(extractor, scan(false));
    const [mirrored] = await readAll(extractor, scan(true));
    t.ok(wordErrorRate(mirrored?.text ?? '', sound?.text ?? '') < 0.05, mirrored?.text ?? '');
    const [left = 0, top = 0, right = 0, bottom = 0] = sound?.layout?.lines[0]?.box ?? [];
    const width = sound?.layout?.width ?? 0;
    const wanted = [width - right, top, width - left, bottom];
    const found = mirrored?.layout?.lines[0]?.box ?? [];
    t.ok(
      wanted.every((side, at) => Math.abs(side - (found[at] ?? 0)) < 8),
      `${found} for ${wanted}`,
    );
  },
);

t.test('every page of a TIFF is read, of an animation the first picture', async (t) => {
  const both = (format: MagickFormat) => {
    const images = MagickImageCollection.create();
    images.read(png);
    images.read(png);
    const add = MagickImageCollection.create(png);
    for (const image of add) images.push(image);
    return images.write(format, (data) => new Uint8Array(data));
  };
  const tiff = await PictureFile.open(both(MagickFormat.Tiff), 'TIFF', testBounds);
  t.equal(tiff.pages, 2);
  t.same(tiff.page(1).pixels, picture.pixels);
  const gif = await PictureFile.open(both(MagickFormat.Gif), 'GIF', testBounds);
  t.equal(gif.pages, 1);
});

t.test('what is see-through is white', async (t) => {
  const bytes = ImageMagick.read(png, (image) => {
    image.transparent(image.getPixels((pixels) => pixels.getColor(0, 0)) ?? image.backgroundColor);
    return image.write(MagickFormat.Png32, (data) => new Uint8Array(data));
  });
  const page = (await PictureFile.open(bytes, 'PNG', testBounds)).page(0);
  t.equal(page.pixels[0], 255);
});

t.test('headers that promise too many pixels are refused, whatever follows', async (t) => {
  const large = new Uint8Array(png);
  Buffer.from(large.buffer).writeUInt32BE(60_000, 16);
  Buffer.from(large.buffer).writeUInt32BE(60_000, 20);
  const screen = '474946383961ffffffff800000000000ffffff';
  const gif = new Uint8Array(Buffer.from(`${screen}2c00000000ffffffff0002024401003b`, 'hex'));
  const bmp = written(png, MagickFormat.Bmp);
  Buffer.from(bmp.buffer, bmp.byteOffset).writeInt32LE(60_000, 18);
  Buffer.from(bmp.buffer, bmp.byteOffset).writeInt32LE(60_000, 22);
  const bombs = { large, gif, bmp };
  for (const [name, bytes] of Object.entries(bombs)) {
    await t.rejects(readAll(extractor, bytes), { code: /bound|damaged/ }, name);
  }
  const strict = await openForTest(plugin, { pixelsMax: 1000 });
  t.teardown(() => strict.close());
  await t.rejects(readAll(strict, png), { code: 'bound', message: /at most 1000/ });
});

t.test('a picture cut off anywhere ends in text or in a reason', async (t) => {
  const jpeg = written(png, MagickFormat.Jpeg);
  for (const whole of [png, jpeg]) {
    for (let tenth = 0; tenth < 10; tenth += 1) {
      const bytes = whole.subarray(0, Math.floor((whole.length * tenth) / 10));
      const outcome = await readAll(extractor, bytes).then(
        () => 'read',
        (error: Error & { code?: string }) => error.code,
      );
      t.match(outcome, /^(read|damaged|no_text|unsupported|bound)$/, `at ${tenth}/10`);
    }
  }
});

t.test('no bytes and no name choose a decoder that runs or fetches', async (t) => {
  const texts = [
    'push graphic-context\nimage over 0,0 0,0 "url(file:///etc/passwd)"',
    '<?xml version="1.0"?><image><read filename="/etc/passwd"/></image>',
    '%!PS-Adobe-3.0 EPSF',
  ];
  for (const text of texts) {
    for (const filename of ['x.mvg', 'x.msl', 'x.png', 'msl:x', 'x.eps']) {
      t.equal(extractor.accepts({ bytes: new Uint8Array(Buffer.from(text)), filename }), null);
    }
  }
});

t.test('an empty picture has no text, and says so', async (t) => {
  const white = pgmOf({ width: 60, height: 60, pixels: new Uint8Array(3600).fill(255) });
  const bytes = ImageMagick.read(white, MagickFormat.Pgm, (image) =>
    image.write(MagickFormat.Png, (data) => new Uint8Array(data)),
  );
  await t.rejects(readAll(extractor, bytes), { code: 'no_text' });
});

t.test('the text of a drawing is read in order, packed or not', async (t) => {
  const drawing = svg(
    '<title>Plan</title><style>text{fill:red}</style><text x="1" y="1">First <tspan>line</tspan><tspan x="1" dy="9">second</tspan></text><g><text>a &lt; b</text></g>',
  );
  const wanted = { text: 'First line\nsecond\na < b', title: 'Plan', pages: 1 };
  t.same(await readAll(extractor, drawing), [wanted]);
  t.same(await readAll(extractor, new Uint8Array(gzipSync(drawing)), 'plan.svgz'), [wanted]);
  await t.rejects(readAll(extractor, svg('<path d="M0 0"/>')), { code: 'no_text' });
});

t.test('entities are not expanded and references not followed', async (t) => {
  const declared =
    '<?xml version="1.0"?><!DOCTYPE svg [<!ENTITY x SYSTEM "file:///etc/passwd"><!ENTITY a "lol"><!ENTITY b "&a;&a;">]>';
  const body = Buffer.from(svg('<image href="file:///etc/passwd"/><text>see &x;&b; here</text>'));
  const bytes = new Uint8Array(Buffer.concat([Buffer.from(declared), body]));
  const [page] = await readAll(extractor, bytes);
  t.match(page?.text, /^see .*here$/);
  t.notMatch(page?.text, /root|lol/);
});

t.test('a drawing is bounded in depth and in what it unpacks to', async (t) => {
  const deep = svg(`${'<g>'.repeat(100)}<text>x</text>${'</g>'.repeat(100)}`);
  await t.rejects(readAll(extractor, deep), { code: 'bound', message: /deep/ });
  const bomb = new Uint8Array(gzipSync(svg(`<text>${'0'.repeat(5_000_000)}</text>`)));
  await t.rejects(readAll(extractor, bomb, 'x.svgz'), { code: 'bound', message: /unpacked/ });
  const cut = bomb.subarray(0, bomb.length / 2);
  await t.rejects(readAll(extractor, cut, 'x.svgz'), { code: /damaged|bound/ });
});

t.test('a drawing without text is drawn, from what it holds alone and within bounds', async (t) => {
  const word =
    '<path d="M10 10h4v34h-4zM10 26h20v4h-20zM28 10h4v34h-4zM44 10h4v34h-4zM64 10h22v4h-22zM73 10h4v34h-4z"/>';
  const around = [
    '<image href="file:///etc/hostname" width="9" height="9"/>',
    '<image href="http://127.0.0.1:1/a.png" width="9" height="9"/>',
    '<g id="a"><use href="#a"/></g>',
    '<filter id="f"><feTurbulence numOctaves="1000000"/></filter><path filter="url(#f)" d="M0 0h1v1z"/>',
  ].join('');
  const sized = (size: string, content: string) =>
    new Uint8Array(Buffer.from(`<svg xmlns="http://www.w3.org/2000/svg" ${size}>${content}</svg>`));
  const [page] = await readAll(extractor, sized('width="100" height="54"', around + word));
  t.match(page?.text, /H/);
  const uses = Array.from({ length: 30 }, (_, at) => {
    const twice = `<use href="#g${at}"/>`.repeat(2);
    return `<g id="g${at + 1}">${twice}</g>`;
  });
  const bombs = {
    uses: sized('width="9" height="9"', `<path id="g0" d="M0 0h9v9z"/>${uses.join('')}`),
    nothing: sized('width="0" height="0"', word),
    thin: sized('width="1000000" height="1"', word),
  };
  for (const [name, bytes] of Object.entries(bombs)) {
    await t.rejects(readAll(extractor, bytes), { code: /damaged|bound|no_text/ }, name);
  }
  const django = documentBytes('pictures/django.svg');
  t.match((await readAll(extractor, django))[0], { text: 'django' }, 'the next one is drawn');
});

t.test('a web page with a drawing in it is none', async (t) => {
  const page = '<!doctype html><html><svg><text>x</text></svg></html>';
  t.equal(extractor.accepts({ bytes: new Uint8Array(Buffer.from(page)), filename: 'x.svg' }), null);
});
