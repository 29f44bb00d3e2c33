/**
 * Owns PDF documents that are made to do harm: loops, lies about sizes, pictures and fonts that attack who decodes them.
 * It must never hold one that was taken from somebody: each is put together here, from the format's own rules.
 */
import { deflateSync } from 'node:zlib';
import type { HostileDocument } from './document.js';

type Part = string | Buffer;

/** Objects are numbered from 1 in their order; the first one is the catalogue. */
export function pdf(objects: readonly Part[], trailer = ''): Buffer {
  const parts: Buffer[] = [Buffer.from('%PDF-1.7\n')];
  const places: number[] = [];
  let at = parts[0]?.length ?? 0;
  const add = (part: Part) => {
    const bytes = Buffer.from(part as string, 'latin1');
    parts.push(bytes);
    at += bytes.length;
  };
  objects.forEach((object, index) => {
    places.push(at);
    add(`${index + 1} 0 obj\n`);
    add(object);
    add('\nendobj\n');
  });
  const rows = places.map((place) => `${String(place).padStart(10, '0')} 00000 n \n`);
  const start = at;
  add(`xref\n0 ${objects.length + 1}\n0000000000 65535 f \n${rows.join('')}`);
  add(
    `trailer\n<</Size ${objects.length + 1}/Root 1 0 R${trailer}>>\nstartxref\n${start}\n%%EOF\n`,
  );
  return Buffer.concat(parts);
}

export function stream(dictionary: string, bytes: Part): Buffer {
  const data = Buffer.from(bytes as string, 'latin1');
  return Buffer.concat([
    Buffer.from(`<<${dictionary}/Length ${data.length}>>\nstream\n`, 'latin1'),
    data,
    Buffer.from('\nendstream'),
  ]);
}

const CATALOG = '<</Type/Catalog/Pages 2 0 R>>';
const PAGES = '<</Type/Pages/Kids[3 0 R]/Count 1>>';
const FONT = '<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>';
const show = (text: string) => `BT /F 24 Tf 40 100 Td (${text}) Tj ET`;
const page = (more: string) => `<</Type/Page/Parent 2 0 R${more}>>`;
const BOX = '/MediaBox[0 0 300 200]';
const RESOURCES = '/Resources<</Font<</F 5 0 R>>>>';

/** One page, its content object 4, its font object 5, and what else it names. */
function onePage(
  content: Part,
  {
    box = BOX,
    font = FONT as Part,
    resources = '/Font<</F 5 0 R>>',
    more = [] as readonly Part[],
  } = {},
): Buffer {
  const body = typeof content === 'string' ? stream('', content) : content;
  const dictionary = `${box}/Contents 4 0 R/Resources<<${resources}>>`;
  return pdf([CATALOG, PAGES, page(dictionary), body, font, ...more]);
}

/** A page that shows nothing but a picture, which is object 6. */
function onePicture(dictionary: string, bytes: Part, more: readonly Part[] = []): Buffer {
  const picture = stream(`/Type/XObject/Subtype/Image${dictionary}`, bytes);
  return onePage('q 300 0 0 200 0 0 cm /I Do Q', {
    resources: '/XObject<</I 6 0 R>>',
    more: [picture, ...more],
  });
}

// -------------------------------------------------------------------- loops

function manyPages(count: number): Buffer {
  const kids = Array.from({ length: count }, (_, at) => `${at + 4} 0 R`).join(' ');
  const each = page(`${BOX}${RESOURCES.replace('5 0 R', '3 0 R')}`);
  return pdf([
    CATALOG,
    `<</Type/Pages/Kids[${kids}]/Count ${count}>>`,
    FONT,
    ...Array.from({ length: count }, () => each),
  ]);
}

/** A tree of ten levels in which each node names the next one ten times: 10 ** 10 pages in a kilobyte. */
function foldedTree(): Buffer {
  const level = (at: number) =>
    `<</Type/Pages/Count ${10 ** (10 - at)}/Kids[${`${at + 3} 0 R `.repeat(10)}]>>`;
  return pdf([CATALOG, ...Array.from({ length: 10 }, (_, at) => level(at)), page(BOX)]);
}

function deepTree(depth: number): Buffer {
  const level = (at: number) => `<</Type/Pages/Count 1/Kids[${at + 3} 0 R]>>`;
  return pdf([CATALOG, ...Array.from({ length: depth }, (_, at) => level(at)), page(BOX)]);
}

function loopedTables(): Buffer {
  const bytes = onePage(show('looped')).toString('latin1');
  const start = /startxref\n(\d+)/.exec(bytes)?.[1] ?? '';
  return Buffer.from(bytes.replace('/Root 1 0 R', `/Root 1 0 R/Prev ${start}`), 'latin1');
}

const loops: readonly HostileDocument[] = [
  {
    name: 'a page tree that is its own child',
    bytes: pdf([CATALOG, '<</Type/Pages/Kids[2 0 R 2 0 R]/Count 2>>']),
  },
  {
    name: 'a page tree whose grandchild is its root',
    bytes: pdf([
      CATALOG,
      '<</Type/Pages/Kids[3 0 R 4 0 R]/Count 9>>',
      '<</Type/Pages/Parent 2 0 R/Kids[2 0 R 4 0 R]/Count 5>>',
      page(BOX),
    ]),
  },
  { name: 'a page tree of 10 000 levels', bytes: deepTree(10_000) },
  { name: 'a page tree folded to 10 ** 10 pages', bytes: foldedTree() },
  { name: '10 000 pages', bytes: manyPages(10_000), reason: /pages/ },
  {
    name: 'a page count of 2 ** 31 - 1',
    bytes: pdf([CATALOG, '<</Type/Pages/Kids[3 0 R]/Count 2147483647>>', page(BOX)]),
  },
  { name: 'tables of references in a loop', bytes: loopedTables() },
  {
    name: 'forms that draw each other',
    bytes: onePage('/A Do', {
      resources: '/XObject<</A 6 0 R>>',
      more: [
        stream(
          '/Type/XObject/Subtype/Form/BBox[0 0 9 9]/Resources<</XObject<</A 7 0 R>>>>',
          '/A Do /A Do',
        ),
        stream(
          '/Type/XObject/Subtype/Form/BBox[0 0 9 9]/Resources<</XObject<</A 6 0 R>>>>',
          '/A Do /A Do',
        ),
      ],
    }),
  },
  {
    name: 'forms folded to 10 ** 12 drawings',
    bytes: onePage('/A Do', {
      resources: '/XObject<</A 6 0 R>>',
      more: Array.from({ length: 12 }, (_, at) =>
        stream(
          `/Type/XObject/Subtype/Form/BBox[0 0 9 9]/Resources<</Font<</F 5 0 R>>/XObject<</A ${at + 7} 0 R>>>>`,
          at === 11 ? show('x') : '/A Do '.repeat(10),
        ),
      ),
    }),
  },
  {
    name: 'an outline, names and threads that bite their tails',
    bytes: pdf([
      '<</Type/Catalog/Pages 2 0 R/Outlines 5 0 R/Names<</Dests 6 0 R/EmbeddedFiles 6 0 R>>/Threads[5 0 R]>>',
      PAGES,
      page(`${BOX}/Contents 4 0 R/Annots[7 0 R 7 0 R]/B[5 0 R]`),
      stream('', ''),
      '<</First 5 0 R/Last 5 0 R/Next 5 0 R/Prev 5 0 R/Parent 5 0 R/Title(x)/Count 9>>',
      '<</Kids[6 0 R 6 0 R]/Limits[(a)(z)]>>',
      '<</Type/Annot/Subtype/Widget/FT/Tx/T(a)/Parent 7 0 R/Kids[7 0 R]/Popup 7 0 R/Rect[0 0 9 9]/V 7 0 R>>',
    ]),
  },
  {
    name: 'a form whose fields are their own parents',
    bytes: pdf([
      '<</Type/Catalog/Pages 2 0 R/AcroForm<</Fields[5 0 R]>>>>',
      PAGES,
      page(`${BOX}/Contents 4 0 R/Annots[5 0 R]`),
      stream('', ''),
      '<</Type/Annot/Subtype/Widget/FT/Tx/T(field)/Parent 5 0 R/Kids[5 0 R 5 0 R]/Rect[0 0 9 9]/V(value)>>',
    ]),
  },
  {
    name: 'a length that is its own stream, contents that are their own list',
    bytes: pdf([
      CATALOG,
      PAGES,
      page(`${BOX}/Contents[4 0 R 5 0 R]/Resources 3 0 R`),
      '<</Length 4 0 R>>\nstream\nBT ET\nendstream',
      '[5 0 R 4 0 R]',
    ]),
  },
  {
    name: 'brackets 100 000 deep',
    bytes: onePage(`${'['.repeat(100_000)} ${'<<'.repeat(100_000)} ${'q '.repeat(100_000)}`),
  },
  {
    name: 'an object 200 000 brackets deep',
    bytes: pdf([
      CATALOG,
      `<</Type/Pages/Kids[3 0 R]/Count 1/X ${'['.repeat(200_000)}>>`,
      page(BOX),
    ]),
  },
];

// -------------------------------------------------------- sizes and filters

const boxes = [
  '[0 0 1000000000 1000000000]',
  '[-2147483648 -2147483648 2147483647 2147483647]',
  '[0 0 1e38 1e38]',
  '[0 0 0 0]',
  '[5 5 1 1]',
  '[0 0 0.0001 100000]',
  '[0 0 14400 14400]',
];

function bombOf(bytes: Buffer, rounds: number): Buffer {
  let packed = bytes;
  for (let round = 0; round < rounds; round += 1) packed = deflateSync(packed);
  return stream(`/Filter[${'/FlateDecode'.repeat(rounds)}]`, packed);
}

const sizes: readonly HostileDocument[] = [
  ...boxes.map((box) => ({
    name: `a page of ${box} with words`,
    bytes: onePage(show('small words'), { box: `/MediaBox${box}` }),
  })),
  ...boxes
    .slice(0, 4)
    .filter((_, at) => at % 3 === 0)
    .map((box) => ({
      name: `a page of ${box} with a picture`,
      bytes: pdf([
        CATALOG,
        PAGES,
        page(`/MediaBox${box}/UserUnit 75000/Contents 4 0 R/Resources<</XObject<</I 5 0 R>>>>`),
        stream('', 'q 1000 0 0 1000 0 0 cm /I Do Q'),
        stream(
          '/Type/XObject/Subtype/Image/Width 2/Height 2/BitsPerComponent 8/ColorSpace/DeviceGray',
          '\0\xff\0\xff',
        ),
      ]),
    })),
  {
    name: 'a content of 64 MB packed to a few kilobytes, twice',
    bytes: onePage(bombOf(Buffer.alloc(64 * 2 ** 20, '0 0 m '), 2)),
  },
  {
    name: 'a content of filters in filters',
    bytes: onePage(bombOf(Buffer.from(show('deep inside')), 60)),
  },
  {
    name: 'a picture of 65 000 × 65 000',
    bytes: onePicture(
      '/Width 65000/Height 65000/BitsPerComponent 8/ColorSpace/DeviceRGB/Filter/FlateDecode',
      deflateSync(Buffer.alloc(1000)),
    ),
    reason: /pixels/,
  },
  {
    name: 'a picture of -1 × 2 ** 31',
    bytes: onePicture(
      '/Width -1/Height 2147483648/BitsPerComponent 32/ColorSpace/DeviceRGB',
      'xxxx',
    ),
  },
  {
    name: 'a fax of 10 ** 9 columns',
    bytes: onePicture(
      '/Width 100/Height 100/BitsPerComponent 1/ColorSpace/DeviceGray/Filter/CCITTFaxDecode/DecodeParms<</K -1/Columns 1000000000/Rows 1000000000>>',
      Buffer.alloc(100, 0xa5),
    ),
  },
  {
    name: 'predictors of impossible rows',
    bytes: onePicture(
      '/Width 10/Height 10/BitsPerComponent 8/ColorSpace/DeviceGray/Filter/FlateDecode/DecodeParms<</Predictor 15/Columns 2147483647/Colors 2147483647/BitsPerComponent 32>>',
      deflateSync(Buffer.alloc(100)),
    ),
  },
  {
    name: 'a photo in a picture whose header says 65 535 × 65 535',
    bytes: onePicture(
      '/Width 16/Height 16/BitsPerComponent 8/ColorSpace/DeviceRGB/Filter/DCTDecode',
      Buffer.from(
        'ffd8ffc0001108ffffffff03012200021101031101ffda000c03010002110311003f00ffd9',
        'hex',
      ),
    ),
  },
  {
    name: 'a picture that is its own mask and colour space',
    bytes: onePicture(
      '/Width 2/Height 2/BitsPerComponent 8/ColorSpace[/Indexed 7 0 R 255 7 0 R]/SMask 6 0 R/Mask 6 0 R',
      'xxxx',
      ['[/Indexed 7 0 R 255 7 0 R]'],
    ),
  },
  {
    name: 'a pattern that is its own tile, a shading of itself',
    bytes: onePage('/Pattern cs /P scn 0 0 300 200 re f /S sh', {
      resources: '/Pattern<</P 6 0 R>>/Shading<</S 7 0 R>>/XObject<</I 9 0 R>>',
      more: [
        stream(
          '/PatternType 1/PaintType 1/TilingType 1/BBox[0 0 1000000 1000000]/XStep 0.0001/YStep 0.0001/Resources<</Pattern<</P 6 0 R>>>>',
          '/Pattern cs /P scn 0 0 9 9 re f',
        ),
        '<</ShadingType 1/ColorSpace/DeviceRGB/Function 8 0 R>>',
        '<</FunctionType 3/Domain[0 1]/Functions[8 0 R 8 0 R]/Bounds[0.5]/Encode[0 1 0 1]>>',
        stream(
          '/Type/XObject/Subtype/Image/Width 1/Height 1/BitsPerComponent 8/ColorSpace/DeviceGray',
          'x',
        ),
      ],
    }),
  },
];

// ---------------------------------------------------------- JBIG2 and fonts

/** One segment: its number, its kind, and its data; lengths are told as they are unless `said` tells another. */
function segment(at: number, kind: number, data: Buffer, said = data.length): Buffer {
  const head = Buffer.alloc(11);
  head.writeUInt32BE(at, 0);
  head.writeUInt8(kind, 4);
  head.writeUInt8(0, 5);
  head.writeUInt8(1, 6);
  head.writeUInt32BE(said >>> 0, 7);
  return Buffer.concat([head, data]);
}

function numbers(...values: readonly number[]): Buffer {
  const bytes = Buffer.alloc(values.length * 4);
  values.forEach((value, at) => {
    bytes.writeUInt32BE(value >>> 0, at * 4);
  });
  return bytes;
}

const pageInfo = (width: number, height: number) =>
  segment(0, 48, Buffer.concat([numbers(width, height, 0, 0), Buffer.from([0, 0, 0])]));
const ADAPTIVE = Buffer.from([3, 0xff, 0xfd, 0xff, 2, 0xfe, 0xfe, 0xfe]);
const region = (width: number, height: number) =>
  Buffer.concat([
    numbers(width, height, 0, 0),
    Buffer.from([0, 0]),
    ADAPTIVE,
    Buffer.alloc(40, 0x5a),
  ]);

const jbig2: Readonly<Record<string, Buffer>> = {
  'a page of 2 ** 32 - 1': pageInfo(-1, -1),
  'a page of 65 535 × 65 535 and a region': Buffer.concat([
    pageInfo(65535, 65535),
    segment(1, 38, region(65535, 65535)),
  ]),
  'a page without a height, and stripes without an end': Buffer.concat([
    pageInfo(100, -1),
    segment(1, 38, region(100, 2 ** 31 - 1)),
    segment(2, 50, numbers(2 ** 31 - 1)),
  ]),
  'a dictionary of 2 ** 32 - 1 symbols': Buffer.concat([
    pageInfo(100, 100),
    segment(
      1,
      0,
      Buffer.concat([Buffer.from([0, 0]), ADAPTIVE, numbers(-1, -1), Buffer.alloc(40, 0xa5)]),
    ),
  ]),
  'text of 2 ** 31 symbols from no dictionary': Buffer.concat([
    pageInfo(100, 100),
    segment(
      1,
      6,
      Buffer.concat([
        numbers(100, 100, 0, 0),
        Buffer.from([0, 0x0c, 0x09]),
        numbers(2 ** 31),
        Buffer.alloc(40, 0xa5),
      ]),
    ),
  ]),
  'a halftone of 2 ** 31 cells': Buffer.concat([
    pageInfo(100, 100),
    segment(
      1,
      16,
      Buffer.concat([Buffer.from([0, 255, 255]), numbers(-1), Buffer.alloc(40, 0xa5)]),
    ),
    segment(
      2,
      22,
      Buffer.concat([
        numbers(100, 100, 0, 0),
        Buffer.from([0, 0]),
        numbers(-1, -1, 0, 0),
        Buffer.from([0xff, 0xff, 0xff, 0xff]),
        Buffer.alloc(40, 0xa5),
      ]),
    ),
  ]),
  'a segment longer than all': Buffer.concat([
    pageInfo(100, 100),
    segment(1, 38, region(100, 100), -1),
    segment(2, 0xff, Buffer.alloc(4), 2 ** 31),
  ]),
};

const pictures: readonly HostileDocument[] = Object.entries(jbig2).map(([name, bytes]) => ({
  name: `JBIG2: ${name}`,
  bytes: onePicture(
    '/Width 100/Height 100/BitsPerComponent 1/ColorSpace/DeviceGray/Filter/JBIG2Decode',
    bytes,
  ),
}));

/** An outline font of tables that say whatever they like. */
function outlineFont(tables: Readonly<Record<string, Buffer>>): Buffer {
  const names = Object.keys(tables);
  const head = Buffer.alloc(12 + 16 * names.length);
  head.writeUInt32BE(0x00010000, 0);
  head.writeUInt16BE(names.length, 4);
  let at = head.length;
  names.forEach((name, index) => {
    head.write(name, 12 + index * 16, 'latin1');
    head.writeUInt32BE(at, 12 + index * 16 + 8);
    head.writeUInt32BE(tables[name]?.length ?? 0, 12 + index * 16 + 12);
    at += tables[name]?.length ?? 0;
  });
  return Buffer.concat([head, ...names.map((name) => tables[name] ?? Buffer.alloc(0))]);
}

/** Composite glyphs, each made of itself and the next one, twice. */
function selfMadeGlyphs(): Buffer {
  const composite = (next: number) => {
    const glyph = Buffer.alloc(24);
    glyph.writeInt16BE(-1, 0);
    glyph.writeInt16BE(1000, 6);
    glyph.writeInt16BE(1000, 8);
    [0x0022, next, 0, 0x0002, next, 0].forEach((value, at) => {
      glyph.writeUInt16BE(value, 10 + at * 2);
    });
    return glyph;
  };
  const glyphs = Array.from({ length: 256 }, (_, at) => composite((at + 1) % 256));
  const places = Buffer.alloc(257 * 2);
  glyphs.forEach((_, at) => {
    places.writeUInt16BE(((at + 1) * 24) / 2, (at + 1) * 2);
  });
  const head = Buffer.alloc(54);
  head.writeUInt32BE(0x00010000, 0);
  head.writeUInt32BE(0x5f0f3cf5, 12);
  head.writeUInt16BE(1000, 18);
  const most = Buffer.alloc(32);
  most.writeUInt32BE(0x00010000, 0);
  most.writeUInt16BE(256, 4);
  most.writeUInt16BE(0xffff, 30);
  const lines = Buffer.alloc(36);
  lines.writeUInt32BE(0x00010000, 0);
  lines.writeUInt16BE(256, 34);
  return outlineFont({
    head,
    hhea: lines,
    hmtx: Buffer.alloc(1024, 1),
    maxp: most,
    loca: places,
    glyf: Buffer.concat(glyphs),
  });
}

const described = (key: string) =>
  `<</Type/Font/Subtype/TrueType/BaseFont/Evil/FirstChar 0/LastChar 255/FontDescriptor<</Type/FontDescriptor/FontName/Evil/Flags 4/FontBBox[0 0 1000 1000]/${key} 6 0 R>>/ToUnicode 7 0 R>>`;

const ranges = (text: string) =>
  stream('', `/CIDInit /ProcSet findresource begin begincmap\n${text}\nendcmap end`);

const letters = 'BT /F 24 Tf 40 100 Td <00010203> Tj (evil letters) Tj ET';

const fontFiles: Readonly<Record<string, readonly [key: string, file: Buffer]>> = {
  'glyphs that are made of themselves': ['FontFile2', selfMadeGlyphs()],
  'tables beyond its end': [
    'FontFile2',
    Buffer.from(
      outlineFont({
        head: Buffer.alloc(54, 0xff),
        glyf: Buffer.alloc(9, 0xff),
        cmap: Buffer.alloc(9, 0xff),
      })
        .toString('hex')
        .replace(/0000/g, 'ffff')
        .slice(0, 200),
      'hex',
    ),
  ],
  'a compact font of noise': [
    'FontFile3',
    Buffer.concat([Buffer.from([1, 0, 4, 4, 0xff, 0xff, 4]), Buffer.alloc(2000, 0xfe)]),
  ],
  'a font whose routines call themselves': [
    'FontFile',
    Buffer.from(
      '%!PS-AdobeFont-1.0: Evil\n/FontType 1 def /FontMatrix [0.001 0 0 0.001 0 0] readonly def /Encoding StandardEncoding def\n/F { F F } def F currentfile eexec\n',
    ),
  ],
};

const fonts: readonly HostileDocument[] = [
  ...Object.entries(fontFiles).map(([name, [key, file]]) => ({
    name: `a font: ${name}`,
    bytes: onePage(letters, {
      font: described(key),
      more: [
        stream(key === 'FontFile3' ? '/Subtype/Type1C' : '', file),
        ranges('1 beginbfrange <00> <ff> <0041> endbfrange'),
      ],
    }),
  })),
  {
    name: 'a map of 2 ** 32 characters, which uses itself',
    bytes: onePage(letters, {
      font: '<</Type/Font/Subtype/Type0/BaseFont/Evil/Encoding 6 0 R/ToUnicode 7 0 R/DescendantFonts[<</Type/Font/Subtype/CIDFontType2/BaseFont/Evil/CIDSystemInfo<</Registry(A)/Ordering(B)/Supplement 0>>/W[0 2147483647 500]/DW 2147483647>>]>>',
      more: [
        stream(
          '/Type/CMap/CMapName/Evil/UseCMap 6 0 R',
          '1 begincidrange <00000000> <ffffffff> 0 endcidrange',
        ),
        ranges(
          `${'100 beginbfrange '.repeat(10)}${'<0000> <ffffffff> <0041>\n'.repeat(1000)} endbfrange 1 beginbfchar <0001> <${'0041'.repeat(20_000)}> endbfchar`,
        ),
      ],
    }),
  },
  {
    name: 'a font whose letters are drawn with itself',
    bytes: onePage('BT /F 24 Tf 40 100 Td (aaaa) Tj ET', {
      font: '<</Type/Font/Subtype/Type3/FontBBox[0 0 1000 1000]/FontMatrix[0.001 0 0 0.001 0 0]/FirstChar 97/LastChar 97/Widths[1000]/Encoding<</Differences[97/a]>>/CharProcs<</a 6 0 R>>/Resources<</Font<</F 5 0 R>>>>>>',
      more: [stream('', '1000 0 d0 BT /F 1000 Tf (aaaa) Tj ET')],
    }),
  },
];

export const hostilePdfs: readonly HostileDocument[] = [
  ...loops,
  ...sizes,
  ...pictures,
  ...fonts,
].map((document) => ({ filename: 'x.pdf', ...document }));
