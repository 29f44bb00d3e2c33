import { Worker } from 'node:worker_threads';
import { deflateSync } from 'node:zlib';
import t from 'tap';
import { withFounderLetters } from '../../../plugins/extractors/pdf/founder-letters.js';
import { withLettersOfGlyphs } from '../../../plugins/extractors/pdf/glyph-numbers.js';
import { putBack, takeInstance } from '../../../plugins/extractors/pdf/instance.js';
import { textOfPage } from '../../../plugins/extractors/pdf/layout.js';
import { namedLigatures } from '../../../plugins/extractors/pdf/named-ligatures.js';
import type { PageChar } from '../../../plugins/extractors/pdf/page-char.js';
import plugin from '../../../plugins/extractors/pdf/pdf.js';
import { DOUBT_MAX, doubtOf, soundLines } from '../../../plugins/extractors/pdf/quality.js';
import { rereadPdf } from '../../../plugins/extractors/pdf/reread.js';
import { NO_RULES } from '../../../plugins/extractors/pdf/tables.js';
import { withLettersOfPairs } from '../../../plugins/extractors/pdf/two-byte-map.js';
import { unplaced } from '../../../plugins/extractors/shared/placed.js';
import type { DocumentPage } from '../../../src/plugin/contract.js';
import { extractorSuite } from '../../../src/plugin/test/extractor.js';
import {
  documentBytes,
  openForTest,
  readAll,
  testBounds,
  wordErrorRate,
} from '../../support/documents.js';
import { pdf, stream } from '../../support/hostile/pdf.js';

t.setTimeout(300_000);

const textOfChars = (chars: readonly PageChar[]) => textOfPage(chars, NO_RULES).text;

extractorSuite(t, {
  plugin,
  documents: [
    {
      bytes: documentBytes('tagged.pdf'),
      filename: 'demo.pdf',
      fileType: 'application/pdf',
      words: [
        'Table of Contents',
        'Document text.',
        'Cell 1 Cell 2',
        'Page 2 Heading',
        'Body text.',
      ],
      pages: 2,
      title: 'Tagged PDF Demo',
    },
  ],
});

const extractor = await openForTest(plugin);
t.teardown(() => extractor.close());

/** Without where its lines stand. */
function bare({ layout: _, ...page }: DocumentPage): DocumentPage {
  return page;
}

const lorem = [
  'Lorem ipsum dolor sit amet,',
  '',
  'consectetur adipisici elit,',
  '',
  'sed eiusmod tempor incidunt ut labore et dolore magna aliqua.',
  'Ut enim ad minim veniam,',
  'quis nostrud exercitation ullamco laboris nisi ut aliquid ex ea',
  'commodi consequat.',
];

/** A document whose objects are given, one after another, from number 1 on. */
function pdfOf(objects: readonly string[]): Uint8Array {
  let text = '%PDF-1.7\n';
  const offsets = objects.map((object, at) => {
    const offset = text.length;
    text += `${at + 1} 0 obj\n${object}\nendobj\n`;
    return offset;
  });
  const start = text.length;
  const rows = offsets.map((offset) => `${String(offset).padStart(10, '0')} 00000 n \n`);
  text += `xref\n0 ${objects.length + 1}\n0000000000 65535 f \n${rows.join('')}`;
  text += `trailer << /Size ${objects.length + 1} /Root 1 0 R >>\nstartxref\n${start}\n%%EOF\n`;
  return new Uint8Array(Buffer.from(text, 'latin1'));
}

const font =
  '/Resources << /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >>';

function pageOf(box: string, extra = ''): string {
  return `<< /Type /Page /Parent 2 0 R /MediaBox [${box}] ${font} /Contents 4 0 R ${extra} >>`;
}

function streamOf(content: string): string {
  return `<< /Length ${content.length} >>\nstream\n${content}\nendstream`;
}

const kids = '<< /Type /Pages /Count 1 /Kids [3 0 R] >>';

t.test(
  'the words of each page in their order, its lines and paragraphs as they stand',
  async (t) => {
    const pages = await readAll(extractor, documentBytes('text.pdf'));
    t.equal(pages.length, 2);
    t.same(pages[0]?.text.split('\n').slice(0, lorem.length), lorem);
    t.equal(pages[1]?.text.split('\n')[3], 'https://kde.org/');
    t.equal(pages[0]?.pages, 2);
  },
);

t.test('cells of a row are parted by tabs, and the title is told', async (t) => {
  const [first] = await readAll(extractor, documentBytes('tagged.pdf'));
  t.match(first?.text, 'Column 1\tColumn 2\nCell 1\tCell 2\nCell 3\tCell 4');
  t.equal(first?.title, 'Tagged PDF Demo');
});

t.test('who needs a password hears it, and so does who sends no PDF', async (t) => {
  await t.rejects(readAll(extractor, documentBytes('encrypted.pdf')), { code: 'encrypted' });
  const junk = new Uint8Array(Buffer.from('%PDF-1.4\nnothing of the kind'));
  await t.rejects(readAll(extractor, junk), { code: 'damaged' });
  await t.rejects(readAll(extractor, junk.subarray(3), 'x.pdf'), { code: 'damaged' });
  t.equal(extractor.accepts({ bytes: junk.subarray(3), filename: 'x.txt' }), null);
});

t.test('a document in a larger buffer is read alone', async (t) => {
  const bytes = documentBytes('text.pdf');
  const larger = new Uint8Array(bytes.length + 64).fill(0x41);
  larger.set(bytes, 32);
  const pages = await readAll(extractor, larger.subarray(32, 32 + bytes.length));
  t.equal(pages.length, 2);
});

t.test('what was read leaves nothing behind for the next document', async (t) => {
  const bytes = documentBytes('text.pdf');
  const once = await readAll(extractor, bytes);
  const { pdfium, start } = await takeInstance();
  const memory = Buffer.from(pdfium.HEAPU8);
  t.notOk(memory.includes(Buffer.from(bytes.subarray(0, 64))), 'its bytes');
  t.ok(memory.subarray(0, start.length).equals(start), 'the memory is as it was at the start');
  t.ok(
    memory.subarray(start.length).every((byte) => byte === 0),
    'and empty behind that',
  );
  putBack({ pdfium, start });
  await t.rejects(readAll(extractor, bytes.subarray(0, 9000)));
  t.same(await readAll(extractor, bytes), once, 'the same text, also after one that was damaged');
});

t.test('an outline that bites its tail ends', async (t) => {
  const pages = await readAll(extractor, documentBytes('toc_circular.pdf'));
  t.same(
    pages.map(({ text }) => text),
    ['Page1', 'Page2'],
  );
});

t.test('more pages than may be are refused before any is read', async (t) => {
  const small = await openForTest(plugin, { pagesMax: 1 });
  t.teardown(() => small.close());
  await t.rejects(readAll(small, documentBytes('text.pdf')), { code: 'bound', message: /2 pages/ });
});

t.test('a form that one reader breaks on is read by the other', async (t) => {
  t.equal(await rereadPdf(documentBytes('forms.pdf'), 1), null);
  const [page] = await readAll(extractor, documentBytes('forms.pdf'));
  t.match(page?.text, 'Test Form');
});

t.test('what is filled into a form is read where no page draws it', async (t) => {
  const field =
    '<< /Type /Annot /Subtype /Widget /FT /Tx /T (city) /V (Bergen op Zoom) /Rect [50 50 250 70] /DA (/F1 12 Tf) >>';
  const bytes = pdfOf([
    '<< /Type /Catalog /Pages 2 0 R /AcroForm << /Fields [5 0 R] >> >>',
    kids,
    pageOf('0 0 300 200', '/Annots [5 0 R]'),
    streamOf('BT /F1 12 Tf 50 100 Td (Where do you live?) Tj ET'),
    field,
  ]);
  const [page] = await readAll(extractor, bytes);
  t.equal(page?.text, 'Where do you live?\ncity: Bergen op Zoom');
});

t.test('a page is opened once, however much is asked of it', async (t) => {
  const bytes = documentBytes('text.pdf');
  const pages = (await readAll(extractor, bytes)).length;
  // What is put back is what the next document is read with.
  const instance = await takeInstance();
  const { pdfium } = instance;
  const open = pdfium._FPDF_LoadPage;
  const opened: number[] = [];
  pdfium._FPDF_LoadPage = (document, index) => {
    opened.push(index);
    return open(document, index);
  };
  t.teardown(() => {
    pdfium._FPDF_LoadPage = open;
  });
  putBack(instance);
  await readAll(extractor, bytes);
  t.ok(pages > 0);
  t.same(
    opened,
    Array.from({ length: pages }, (_, index) => index),
  );
});

t.test('a form is read by the other reader for its fields alone', async (t) => {
  const asked: unknown[] = [];
  t.intercept(Worker.prototype, 'postMessage', { value: (...all: unknown[]) => asked.push(all) });
  const form = (annotations: string) =>
    pdfOf([
      '<< /Type /Catalog /Pages 2 0 R /AcroForm << /Fields [] >> >>',
      kids,
      pageOf('0 0 300 200', annotations),
      streamOf('BT /F1 12 Tf 50 100 Td (Where do you live?) Tj ET'),
    ]);
  t.match(await readAll(extractor, form('')), [{ text: 'Where do you live?' }]);
  t.same(asked, []);
});

t.test('a page that loses its fonts with its form is read as it was drawn', async (t) => {
  const blind = await openForTest(plugin, {}, []);
  t.teardown(() => blind.close());
  const map =
    '/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /X def /CMapType 2 def 1 begincodespacerange <00> <ff> endcodespacerange 1 beginbfrange <01> <1a> <0061> endbfrange endcmap end end';
  const codes = Buffer.from('\x08\x05\x0c\x0c\x0f'.repeat(4), 'latin1').toString('hex');
  const shown = streamOf('/Tx BMC BT /F1 12 Tf 2 5 Td (Bergen) Tj ET EMC');
  const bytes = pdfOf([
    '<< /Type /Catalog /Pages 2 0 R /AcroForm << /Fields [5 0 R] >> >>',
    // The page has these fonts from here: it has none of its own.
    '<< /Type /Pages /Count 1 /Kids [3 0 R] /Resources << /Font << /F1 6 0 R >> >> >>',
    '<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 200] /Contents 4 0 R /Annots [5 0 R] >>',
    streamOf(`BT /F1 12 Tf 20 100 Td <${codes}> Tj ET`),
    '<< /Type /Annot /Subtype /Widget /FT /Tx /T (city) /V (Bergen) /Rect [50 50 250 70] /AP << /N 8 0 R >> >>',
    '<< /Type /Font /Subtype /Type1 /BaseFont /Odd /ToUnicode 7 0 R >>',
    streamOf(map),
    shown.replace('<<', `<< /Type /XObject /Subtype /Form /BBox [0 0 200 20] ${font}`),
  ]);
  const [page] = await readAll(blind, bytes);
  t.match(page?.text, 'hellohellohellohello');
  t.match(page?.text, 'city: Bergen');
});

t.test('text that no letter can be made of is left out, and its page says so', async (t) => {
  const blind = await openForTest(plugin, {}, []);
  t.teardown(() => blind.close());
  const codes = `<${'0004'.repeat(40)}>`;
  const odd =
    '<< /Type /Font /Subtype /Type0 /BaseFont /Odd /Encoding /Identity-H /DescendantFonts [<< /Type /Font /Subtype /CIDFontType2 /BaseFont /Odd /CIDSystemInfo << /Registry (Adobe) /Ordering (Identity) /Supplement 0 >> >>] >>';
  const bytes = pdfOf([
    '<< /Type /Catalog /Pages 2 0 R >>',
    '<< /Type /Pages /Count 2 /Kids [3 0 R 6 0 R] >>',
    '<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 200] /Resources << /Font << /F1 5 0 R >> >> /Contents 4 0 R >>',
    streamOf(`BT /F1 12 Tf 20 100 Td ${codes} Tj ET`),
    odd,
    `<< /Type /Page /Parent 2 0 R /MediaBox [0 0 200 200] ${font} /Contents 7 0 R >>`,
    streamOf('BT /F1 12 Tf 20 100 Td (The other page) Tj ET'),
  ]);
  t.match(await readAll(blind, bytes), [
    { text: '', skipped: [/fonts do not say/] },
    { text: 'The other page' },
  ]);
});

t.test('numbers of glyphs in the standard order become their letters', async (t) => {
  const blind = await openForTest(plugin, {}, []);
  t.teardown(() => blind.close());
  const glyphs = (text: string) =>
    [...text].map((letter) => (letter === 'é' ? 112 : letter.charCodeAt(0) - 29).toString(16));
  const shown = (text: string) =>
    `<${glyphs(text)
      .map((code) => code.padStart(4, '0'))
      .join('')}>`;
  const odd =
    '<< /Type /Font /Subtype /Type0 /BaseFont /TimesNewRoman /Encoding /Identity-H /DescendantFonts [<< /Type /Font /Subtype /CIDFontType2 /BaseFont /TimesNewRoman /CIDSystemInfo << /Registry (Adobe) /Ordering (Identity) /Supplement 0 >> >>] >>';
  const read = async (text: string) => {
    const [page] = await readAll(
      blind,
      pdfOf([
        '<< /Type /Catalog /Pages 2 0 R >>',
        kids,
        '<< /Type /Page /Parent 2 0 R /MediaBox [0 0 900 200] /Resources << /Font << /F1 5 0 R >> >> /Contents 4 0 R >>',
        streamOf(`BT /F1 12 Tf 20 100 Td ${shown(text)} Tj ET`),
        odd,
      ]),
    );
    return page;
  };
  const words = "Je demande l'attestation du 3 mai 2024 (précise).";
  t.match(await read(words), { text: words, skipped: undefined });
  t.match(await read('ALL IN CAPITALS, 12 OF 30'), { text: 'ALL IN CAPITALS, 12 OF 30' });
});

/** A page whose one font is that given, and draws these codes. */
function pageWith(font: string, codes: Buffer, more: readonly string[] = []): Uint8Array {
  return pdfOf([
    '<< /Type /Catalog /Pages 2 0 R >>',
    kids,
    '<< /Type /Page /Parent 2 0 R /MediaBox [0 0 900 200] /Resources << /Font << /F1 5 0 R >> >> /Contents 4 0 R >>',
    streamOf(`BT /F1 12 Tf 20 100 Td <${codes.toString('hex')}> Tj ET`),
    font,
    ...more,
  ]);
}

t.test('a ligature that is named by its letters is read as them', async (t) => {
  const font =
    '<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding << /Type /Encoding /BaseEncoding /WinAnsiEncoding /Differences [28 /f_f_i.alt /T_h /a_lone 31 /f_i] >> >>';
  const codes = Buffer.from('\x1de \x1frst o\x1ccer', 'latin1');
  const [page] = await readAll(extractor, pageWith(font, codes));
  t.equal(page?.text, 'The first officer');
});

t.test('names of ligatures are found in packed objects, too', async (t) => {
  const objects = [
    '<< /Type /Font /Subtype /Type1 /BaseFont /ABCDEF+Minion /Encoding 8 0 R >>',
    '<< /Type /Encoding /Differences [5 /c_t 30 /f_l] >>',
  ];
  const [font = '', encoding = ''] = objects;
  const head = `7 0 8 ${font.length} `;
  const packed = deflateSync(head + font + encoding);
  const bytes = Buffer.concat([
    Buffer.from(`1 0 obj << /Type /ObjStm /N 2 /First ${head.length} >> stream\r\n`),
    packed,
    Buffer.from('\nendstream endobj\n2 0 obj << /Type /Font /Subtype /Type1'),
    Buffer.from('/BaseFont /GHIJKL+Minion /Encoding << /Differences [5 /s_t] >> >> endobj'),
  ]);
  const found = namedLigatures(bytes);
  t.same(
    [...found].map(([name, letters]) => [name, [...letters]]),
    [
      [
        'Minion',
        [
          [5, ''],
          [30, 'fl'],
        ],
      ],
    ],
  );
  const bomb = deflateSync(Buffer.alloc(80 * 1024 * 1024));
  const large = Buffer.concat([
    Buffer.from('1 0 obj << /Type /ObjStm /N 2 /First 9 >> stream\n'),
    bomb,
  ]);
  t.same([...namedLigatures(large)], [], 'more than may be');
});

t.test(
  'fonts of drawings have the letters of the order of TeX that their ligatures show',
  async (t) => {
    const drawings = '<< /Type /Font /Subtype /Type3 /FontBBox [0 0 1 1] /FontMatrix [1 0 0 1 0 0]';
    const named = Array.from({ length: 256 }, (_, code) => `/a${code}`);
    const font = `${drawings} /FirstChar 0 /LastChar 255 /Widths [${named.map(() => '0.5').join(' ')}] /Encoding << /Type /Encoding /Differences [0 ${named.join(' ')}] >> /CharProcs << ${named.map((name) => `${name} 6 0 R`).join(' ')} >> >>`;
    const read = async (text: string) => {
      const bytes = pageWith(font, Buffer.from(text, 'latin1'), [streamOf('0.5 0 0 0 1 1 d1')]);
      return (await readAll(extractor, bytes))[0]?.text;
    };
    t.equal(
      await read(
        'di\x1berent words that the \x1crst o\x1ece \x10re\x1dects\x11 since 1990\x151995 in \xa2Czech\xd7',
      ),
      'different words that the first office “reflects” since 1990–1995 in ćCzechŒ',
    );
    t.equal(
      await read('di\x0berent words that the \x0crst o\x0ece \\re\x0dects" since 1990{1995'),
      'different words that the first office “reflects” since 1990–1995',
    );
  },
);

t.test('each font may count its glyphs from another number', async (t) => {
  const charsOf = (text: string, id: number, first: number): PageChar[] =>
    [...text].map((char, at) => {
      const box = { left: at * 5, right: at * 5 + 5, bottom: 0, top: 10 };
      const code = char.charCodeAt(0) - 0x20 + first;
      return { code, isUnmapped: true, font: { id, name: 'Odd' }, ...box };
    });
  const words = 'Il filosofo aiuta il soggetto a decidere di se stesso e di ogni regola';
  const others = "L'adaptation de la bataille est l'histoire de son territoire";
  const chars = [...charsOf(words, 1, -1), ...charsOf(others, 2, 3)];
  const letters = withLettersOfGlyphs(chars).map(({ code }) => String.fromCodePoint(code));
  t.equal(letters.join(''), words + others);
  const spaced = charsOf(words, 1, -1).map((char) =>
    char.code === -1 ? { ...char, code: 3 } : char,
  );
  const found = withLettersOfGlyphs(spaced).map(({ code }) => String.fromCodePoint(code));
  t.equal(found.join(''), words, 'with the space before them all');
});

t.test('codes that are characters, or of no known order, stay as they are', async (t) => {
  const charsOf = (text: string): PageChar[] =>
    [...text].map((char, at) => {
      const box = { left: at * 5, right: at * 5 + 5, bottom: 0, top: 10 };
      return { code: char.codePointAt(0) ?? 0, isUnmapped: char !== '\n', ...box };
    });
  for (const text of [
    'Volume summary of the codes',
    '0.5 1.0 1.5 2.0 2.5 3.0',
    'n n n n n n n n n n n n n',
    '/ / / / \u0003 < < < < \u0003 > > > >',
    '>\n<\n>\n>\n'.repeat(30),
    '\u0bcb\u0a05\u03a1\u0f0f'.repeat(5),
  ])
    t.same(withLettersOfGlyphs(charsOf(text)), charsOf(text), text);
});

t.test('letters drawn as outlines are recognised', async (t) => {
  const [page] = await readAll(extractor, documentBytes('vector.pdf'));
  const wanted =
    'Sample Vector PDF for Testing This is text that should be used for OCR processing. There could be more or less text. Anyway, have fun with it.';
  t.ok(wordErrorRate(page?.text ?? '', wanted) < 0.05, page?.text ?? '');
});

t.test('a printed and scanned page is recognised', async (t) => {
  const [page] = await readAll(extractor, documentBytes('epson.pdf'));
  const wanted =
    'Optical character recognition (optical character reader, OCR) is the mechanical or electronic conversion of images of typed, handwritten or printed text into machine-encoded text, whether from a scanned document, a photo of a document,';
  const text = page?.text ?? '';
  const from = text.indexOf('Optical character recognition (');
  const to = text.indexOf('a photo of a document,') + 'a photo of a document,'.length;
  t.ok(from > 0 && wordErrorRate(text.slice(from, to), wanted) < 0.05, text.slice(0, 600));
});

t.test('an empty page is no error, a document of nothing else is one', async (t) => {
  const empty = pdfOf([
    '<< /Type /Catalog /Pages 2 0 R >>',
    kids,
    pageOf('0 0 200 200'),
    streamOf(''),
  ]);
  await t.rejects(readAll(extractor, empty), { code: 'no_text', message: /OCR/ });
});

t.test('a page of any size is rendered within the bound', async (t) => {
  const huge = pdfOf([
    '<< /Type /Catalog /Pages 2 0 R >>',
    kids,
    pageOf('0 0 2000000 2000000'),
    streamOf('0 0 1000000 1000000 re f'),
  ]);
  await t.rejects(readAll(extractor, huge), { code: 'no_text' });
});

t.test('a picture that would take too much is known by its header', async (t) => {
  const bomb = pdfOf([
    '<< /Type /Catalog /Pages 2 0 R >>',
    kids,
    '<< /Type /Page /Parent 2 0 R /MediaBox [0 0 200 200] /Contents 4 0 R /Resources << /XObject << /I 5 0 R >> >> >>',
    streamOf('200 0 0 200 0 0 cm /I Do'),
    '<< /Type /XObject /Subtype /Image /Width 60000 /Height 60000 /ColorSpace /DeviceGray /BitsPerComponent 8 /Length 4 >>\nstream\nabcd\nendstream',
  ]);
  await t.rejects(readAll(extractor, bomb), { code: 'bound', message: /60000 × 60000/ });
});

/** A page as large as its picture, under words and with a note; the picture may be turned or a part of a form. */
function scanWith(words: string, extra = ''): Buffer {
  const jpeg = '/Type/XObject/Subtype/Image/Width 320/Height 180/ColorSpace/DeviceRGB';
  const drawn = `q 560 0 0 315 17 260 cm /Picture Do Q BT /F 12 Tf 500 20 Td (${words}) Tj ET`;
  return pdf([
    '<</Type/Catalog/Pages 2 0 R>>',
    '<</Type/Pages/Kids[3 0 R]/Count 1>>',
    `<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Resources<</Font<</F 4 0 R>>/XObject<</Picture 5 0 R>>>>/Contents 6 0 R${extra}>>`,
    '<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>',
    stream(
      `${jpeg}/BitsPerComponent 8/Filter/DCTDecode`,
      Buffer.from(documentBytes('pictures/simple.jpg')),
    ),
    stream('', drawn),
  ]);
}

t.test('a scan with a stamp is read, and so is a picture beside words', async (t) => {
  const [page] = await readAll(extractor, scanWith('page 7'));
  t.match(page?.text, /^page 7\n\n[\s\S]*Tesseract\.js/);
  t.ok((page?.recognized ?? 0) > 50, `${page?.recognized}`);
  const [known] = await readAll(extractor, scanWith('Tesseract.js'));
  t.equal(known?.text.match(/Tesseract/g)?.length, 1, 'what the text says is not said again');
});

t.test('pictures beside words are left alone where the settings say so', async (t) => {
  const options = { bounds: testBounds, languages: ['eng'], pictures: false };
  const plain = await plugin.open(options);
  t.teardown(() => plain.close());
  t.same((await readAll(plain, scanWith('page 7'))).map(bare), [
    { text: 'page 7', pages: 1, unit: 'page', title: '' },
  ]);
});

t.test('notes on a page are read with their author', async (t) => {
  const note = (subtype: string, text: string, author = '') =>
    `<</Type/Annot/Subtype/${subtype}/Rect[50 50 90 90]/Contents(${text})${author}>>`;
  const annotations = [
    note('Text', 'Is this right?', '/T(Ann)'),
    note('FreeText', 'page 7', '/T(Ann)'),
    note('Link', 'no note'),
    note('Highlight', 'Nobody signed this.'),
  ];
  const [page] = await readAll(extractor, scanWith('page 7', `/Annots[${annotations.join('')}]`));
  t.match(page?.text, 'Comment: [Ann] Is this right?\nComment: Nobody signed this.');
  t.notMatch(page?.text, /no note|Comment: \[Ann\] page 7/);
});

t.test('what a stamp says is part of its page, and notes beside it are read', async (t) => {
  // The second is a field of a page that was taken out of its form.
  for (const subtype of ['Stamp', 'Widget/FT/Tx/T(city)/V(Bergen op Zoom)']) {
    const stamp = `<</Type/Annot/Subtype/${subtype}/Rect[20 20 220 40]/F 4/AP<</N 5 0 R>>>>`;
    const note = '<</Type/Annot/Subtype/Text/Rect[50 50 90 90]/Contents(Is this right?)>>';
    const shown = streamOf('BT /F1 12 Tf 2 5 Td (Bergen op Zoom) Tj ET');
    const bytes = pdfOf([
      '<< /Type /Catalog /Pages 2 0 R >>',
      kids,
      pageOf('0 0 300 200', `/Annots [${stamp} ${note}]`),
      streamOf('BT /F1 12 Tf 20 100 Td (A letter) Tj ET'),
      shown.replace('<<', `<< /Type /XObject /Subtype /Form /BBox [0 0 200 20] ${font}`),
    ]);
    const [page] = await readAll(extractor, bytes);
    t.equal(page?.text, 'A letter\n\nBergen op Zoom\n\nComment: Is this right?', subtype);
  }
});

t.test('one picture that is too large is skipped, and its page says so', async (t) => {
  const bytes = pdfOf([
    '<< /Type /Catalog /Pages 2 0 R >>',
    '<< /Type /Pages /Count 2 /Kids [3 0 R 6 0 R] >>',
    '<< /Type /Page /Parent 2 0 R /MediaBox [0 0 200 200] /Contents 4 0 R /Resources << /XObject << /I 5 0 R >> >> >>',
    streamOf('200 0 0 200 0 0 cm /I Do'),
    '<< /Type /XObject /Subtype /Image /Width 60000 /Height 60000 /ColorSpace /DeviceGray /BitsPerComponent 8 /Length 4 >>\nstream\nabcd\nendstream',
    `<< /Type /Page /Parent 2 0 R /MediaBox [0 0 200 200] ${font} /Contents 7 0 R >>`,
    streamOf('BT /F1 12 Tf 20 100 Td (The other page) Tj ET'),
  ]);
  t.same((await readAll(extractor, bytes)).map(bare), [
    {
      text: '',
      pages: 2,
      unit: 'page',
      title: '',
      skipped: ['a picture of 60000 × 60000 pixels (too large)'],
    },
    { text: 'The other page', pages: 2, unit: 'page' },
  ]);
});

t.test('a document cut off anywhere ends in pages or in a reason', async (t) => {
  for (const name of ['text.pdf', 'tagged.pdf']) {
    const whole = documentBytes(name);
    for (let tenth = 0; tenth < 10; tenth += 1) {
      const bytes = whole.subarray(0, Math.floor((whole.length * tenth) / 10));
      const outcome = await readAll(extractor, bytes, 'cut.pdf').then(
        (pages) => `${pages.length} pages`,
        (error: Error & { code?: string }) => error.code,
      );
      t.match(outcome, /^(\d pages|damaged|no_text|bound)$/, `${name} at ${tenth}/10`);
    }
  }
});

t.test('the second reader reads the same words, and prints nothing', async (t) => {
  const said: unknown[] = [];
  const { error } = console;
  console.error = (...all: unknown[]) => said.push(all);
  t.teardown(() => {
    console.error = error;
  });
  const pages = await rereadPdf(documentBytes('text.pdf'), 2);
  t.match(pages?.[0]?.text.replace(/\s+/g, ' '), 'Lorem ipsum dolor sit amet, consectetur');
  await rereadPdf(documentBytes('forms.pdf'), 1);
  t.same(said, []);
});

t.test('sound lines among the codes of glyphs are kept', async (t) => {
  const text = 'Chapter 1 ......... 5\n\ue001\ue002\ue003\ue004 \ue005\nA sentence, as they are.\n';
  const sound = 'Chapter 1 ......... 5\nA sentence, as they are.';
  t.equal(soundLines(unplaced(text), { visible: 0, controls: 0 }).text, sound);
  t.equal(
    soundLines(unplaced(text), { visible: 40, controls: 0 }).text,
    '',
    'which of them are none, nobody knows',
  );
  t.equal(soundLines(unplaced(text), { visible: 0, controls: 2 }).text, '');
});

t.test('text nobody wrote is told from text', async (t) => {
  t.ok(doubtOf('A sentence, as they are. 你好 99 %') <= DOUBT_MAX);
  t.ok(doubtOf('\ue001\ue002\ue003 \ufffd') > DOUBT_MAX);
  t.ok(doubtOf('!"#$%&()*+,-./:;<=>') > DOUBT_MAX);
  const unmapped = (visible: number, controls = 0) => ({ visible, controls });
  t.ok(doubtOf('mapped', unmapped(6)) <= DOUBT_MAX, 'codes that are characters');
  t.ok(doubtOf('の削除・インストールについて【Java】', unmapped(20)) <= DOUBT_MAX);
  t.ok(doubtOf('0.5\n1.0\nlog([NII]/Hα)\n20 % 128K', unmapped(20)) <= DOUBT_MAX, 'labels of axes');
  t.ok(doubtOf('mapped', unmapped(6, 3)) > DOUBT_MAX, 'codes that are none');
  // Numbers of glyphs, each 29 less than the character.
  t.ok(doubtOf('7KLV9HUVLRQ GHSHQGV WKDW ZDV 9&RGH', unmapped(29)) > DOUBT_MAX);
  t.ok(doubtOf('9ROXPHV 6XPPD ɍɝɥɨɜɚɹ', unmapped(20)) > DOUBT_MAX);
  t.equal(doubtOf(' \n'), 1);
});

t.test('letters that came as pairs of bytes are letters again, and Korean stays', async (t) => {
  const russian = 'Масса Масштаб';
  const asPairs = Buffer.from(russian.replace(' ', '')).swap16().toString('utf16le');
  t.match(asPairs, /^[\uac00-\ud7a3]+$/);
  t.equal(withLettersOfPairs(`1:1 ${asPairs}`), '1:1 МассаМасштаб');
  const korean = '개인정보 처리방침을 알려 드립니다';
  t.equal(withLettersOfPairs(korean), korean);
  t.equal(withLettersOfPairs(asPairs.slice(0, 4)), asPairs.slice(0, 4), 'too few to tell');
  t.equal(withLettersOfPairs(`${asPairs}가`), `${asPairs}가`);
  for (const frequent of ['용', '용요특통쪽', '회용요스특통쪽', '용요특통쪽슀']) {
    const repeated = frequent.repeat(8);
    t.equal(withLettersOfPairs(repeated), repeated);
  }
  const map = [...russian.replace(' ', '')].map((char, at) => {
    const code = (0x41 + at).toString(16);
    return `<${code}> <${Buffer.from(char).toString('hex')}>`;
  });
  const cmap = `/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /X def 1 begincodespacerange <00> <FF> endcodespacerange ${map.length} beginbfchar ${map.join(' ')} endbfchar endcmap end end`;
  const bytes = pdfOf([
    '<< /Type /Catalog /Pages 2 0 R >>',
    kids,
    '<< /Type /Page /Parent 2 0 R /MediaBox [0 0 400 200] /Resources << /Font << /F1 5 0 R >> >> /Contents 4 0 R >>',
    streamOf(`BT /F1 12 Tf 20 100 Td (${'ABCDEFGHIJKL'}) Tj ET`),
    '<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /ToUnicode 6 0 R >>',
    streamOf(cmap),
  ]);
  t.equal((await readAll(extractor, bytes))[0]?.text, 'МассаМасштаб');
});

t.test('letters that Founder gave codes of rare signs are letters again', async (t) => {
  const shown = '犌犅／犜２３７７６—２０１８ 感官分析 犕犲狋犺狅犱狅犾狅犵狔 犃．１';
  t.equal(withFounderLetters(shown), 'GB／T２３７７６—２０１８ 感官分析 Methodology A．１');
  for (const chinese of ['狀況不明，狀態良好', '犌犅／犜', '犃。犅。犆。犇。犈。狀況犲犳']) {
    t.equal(withFounderLetters(chinese), chinese);
  }
  const signs = [...'犌犅犜犕犲狋犺狅犱'];
  const map = signs.map((sign, at) => {
    const hex = (code: number, digits: number) => code.toString(16).padStart(digits, '0');
    return `<${hex(0x41 + at, 2)}> <${hex(sign.charCodeAt(0), 4)}>`;
  });
  const cmap = `/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /X def 1 begincodespacerange <00> <FF> endcodespacerange ${map.length} beginbfchar ${map.join(' ')} endbfchar endcmap end end`;
  const odd = '<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /ToUnicode 6 0 R >>';
  const bytes = pageWith(odd, Buffer.from('ABCDEFGHI'), [streamOf(cmap)]);
  t.equal((await readAll(extractor, bytes))[0]?.text, 'GBTMethod');
});

/** A page with these pieces of text, each with its matrix. */
function pageOfPieces(...pieces: [string, string][]): Uint8Array {
  const drawn = pieces.map(([matrix, text]) => `${matrix} Tm (${text}) Tj`).join(' ');
  return pdfOf([
    '<< /Type /Catalog /Pages 2 0 R >>',
    kids,
    pageOf('0 0 400 400'),
    streamOf(`BT /F1 12 Tf ${drawn} ET`),
  ]);
}

t.test('lines that run upwards or downwards are lines', async (t) => {
  const places: [string, (line: number, along: number) => [number, number]][] = [
    ['0 1 -1 0', (line, along) => [100 + line * 14, 50 + along]],
    ['0 -1 1 0', (line, along) => [300 - line * 14, 350 - along]],
    ['1 0 0 1', (line, along) => [50 + along, 300 - line * 14]],
  ];
  for (const [turn, at] of places) {
    const piece = (text: string, line: number, along = 0): [string, string] => [
      `${turn} ${at(line, along).join(' ')}`,
      text,
    ];
    const row = [piece('in this', 0), piece('cell', 0, 120), piece('is', 1, 60)];
    t.equal((await readAll(extractor, pageOfPieces(...row)))[0]?.text, 'in this\tcell\nis', turn);
    // The library has these from left to right.
    if (turn === '0 -1 1 0') continue;
    const lines = [piece('It', 0), piece('is', 1), piece('in', 2)];
    t.equal((await readAll(extractor, pageOfPieces(...lines)))[0]?.text, 'It\nis\nin', turn);
  }
});

t.test('a letter below another begins a line', async (t) => {
  const [page] = await readAll(
    extractor,
    pageOfPieces(['1 0 0 1 100 300', 'C'], ['1 0 0 1 100 285', 'U'], ['1 0 0 1 98 270', 'X']),
  );
  t.equal(page?.text, 'C\nU\nX');
  const text = (turn: null | undefined, ...places: [string, number, number][]) =>
    textOfChars(
      places.map(([shown, left, bottom]) => {
        const box = { left, right: left + 5, bottom, top: bottom + 10 };
        return { code: shown.codePointAt(0) ?? 0, ...box, ...(turn === null && { turn }) };
      }),
    );
  t.equal(text(undefined, ['a', 0, 100], ['b', 0, 90], ['c', 5, 90]), 'a\nbc');
  t.equal(text(undefined, ['x', 0, 100], ['2', 5, 104], ['i', 5, 97]), 'x2i', 'raised and lowered');
  t.equal(text(null, ['a', 0, 100], ['b', 3, 90], ['c', 6, 80]), 'abc', 'a slanted line');
  t.equal(text(undefined, ['中', 0, 100], ['文', 0, 90]), '中文', 'written downwards');
});

t.test('a language that is not installed is named when the plugin opens', async (t) => {
  const opening = openForTest(plugin, {}, ['eng', 'tlh']);
  await t.rejects(opening, { message: /@tesseract\.js-data\/tlh is not installed/ });
  await t.rejects(openForTest(plugin, {}, ['../eng']), { message: /no OCR language/ });
});
