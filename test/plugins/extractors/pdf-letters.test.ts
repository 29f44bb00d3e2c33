import { deflateSync } from 'node:zlib';
import t from 'tap';
import { withFounderLetters } from '../../../plugins/extractors/pdf/founder-letters.js';
import { withLettersOfGlyphs } from '../../../plugins/extractors/pdf/glyph-numbers.js';
import { namedLigatures } from '../../../plugins/extractors/pdf/named-ligatures.js';
import type { PageChar } from '../../../plugins/extractors/pdf/page-char.js';
import plugin from '../../../plugins/extractors/pdf/pdf.js';
import { DOUBT_MAX, doubtOf, soundLines } from '../../../plugins/extractors/pdf/quality.js';
import { withLettersOfPairs } from '../../../plugins/extractors/pdf/two-byte-map.js';
import { unplaced } from '../../../plugins/extractors/shared/placed.js';
import { openForTest, readAll } from '../../support/documents.js';
import { pdf, stream } from '../../support/hostile/pdf.js';

t.setTimeout(300_000);

const extractor = await openForTest(plugin);
t.teardown(() => extractor.close());

const helvetica =
  '/Resources << /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >>';
const kids = '<< /Type /Pages /Count 1 /Kids [3 0 R] >>';

t.test('text that no letter can be made of is left out, and its page says so', async (t) => {
  const blind = await openForTest(plugin, {}, []);
  t.teardown(() => blind.close());
  const codes = `<${'0004'.repeat(40)}>`;
  const odd =
    '<< /Type /Font /Subtype /Type0 /BaseFont /Odd /Encoding /Identity-H /DescendantFonts [<< /Type /Font /Subtype /CIDFontType2 /BaseFont /Odd /CIDSystemInfo << /Registry (Adobe) /Ordering (Identity) /Supplement 0 >> >>] >>';
  const bytes = pdf([
    '<< /Type /Catalog /Pages 2 0 R >>',
    '<< /Type /Pages /Count 2 /Kids [3 0 R 6 0 R] >>',
    '<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 200] /Resources << /Font << /F1 5 0 R >> >> /Contents 4 0 R >>',
    stream('', `BT /F1 12 Tf 20 100 Td ${codes} Tj ET`),
    odd,
    `<< /Type /Page /Parent 2 0 R /MediaBox [0 0 200 200] ${helvetica} /Contents 7 0 R >>`,
    stream('', 'BT /F1 12 Tf 20 100 Td (The other page) Tj ET'),
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
      pdf([
        '<< /Type /Catalog /Pages 2 0 R >>',
        kids,
        '<< /Type /Page /Parent 2 0 R /MediaBox [0 0 900 200] /Resources << /Font << /F1 5 0 R >> >> /Contents 4 0 R >>',
        stream('', `BT /F1 12 Tf 20 100 Td ${shown(text)} Tj ET`),
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
function pageWith(font: string, codes: Buffer, more: readonly Buffer[] = []): Buffer {
  return pdf([
    '<< /Type /Catalog /Pages 2 0 R >>',
    kids,
    '<< /Type /Page /Parent 2 0 R /MediaBox [0 0 900 200] /Resources << /Font << /F1 5 0 R >> >> /Contents 4 0 R >>',
    stream('', `BT /F1 12 Tf 20 100 Td <${codes.toString('hex')}> Tj ET`),
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
      const bytes = pageWith(font, Buffer.from(text, 'latin1'), [stream('', '0.5 0 0 0 1 1 d1')]);
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
  const bytes = pdf([
    '<< /Type /Catalog /Pages 2 0 R >>',
    kids,
    '<< /Type /Page /Parent 2 0 R /MediaBox [0 0 400 200] /Resources << /Font << /F1 5 0 R >> >> /Contents 4 0 R >>',
    stream('', `BT /F1 12 Tf 20 100 Td (${'ABCDEFGHIJKL'}) Tj ET`),
    '<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /ToUnicode 6 0 R >>',
    stream('', cmap),
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
  const bytes = pageWith(odd, Buffer.from('ABCDEFGHI'), [stream('', cmap)]);
  t.equal((await readAll(extractor, bytes))[0]?.text, 'GBTMethod');
});
