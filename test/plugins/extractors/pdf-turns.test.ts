/**
 * Owns the proof that lines are read alike whichever way they run: upwards, downwards, upside down, on a page that is turned itself.
 * It must never say what the text of an upright line is: the same line, turned, is compared with it.
 */
import t from 'tap';
import plugin from '../../../plugins/extractors/pdf/pdf.js';
import { openForTest, readAll } from '../../support/documents.js';
import { pdf, stream } from '../../support/hostile/pdf.js';

const extractor = await openForTest(plugin);
t.teardown(() => extractor.close());

const WIDE = 400;
/** Text and where it begins, as who reads it sees it. */
type Piece = readonly [text: string, x: number, y: number];

/** By quarters clockwise, about the middle of the page. */
function matrixOf([, x, y]: Piece, quarters: number): string {
  const turned = [
    [1, 0, 0, 1, x, y],
    [0, -1, 1, 0, y, WIDE - x],
    [-1, 0, 0, -1, WIDE - x, WIDE - y],
    [0, 1, -1, 0, WIDE - y, x],
  ];
  return (turned[quarters] ?? []).join(' ');
}

const drawn = (pieces: readonly Piece[], quarters: number) =>
  pieces.map((piece) => `${matrixOf(piece, quarters)} Tm (${piece[0]}) Tj`).join(' ');

/** Of a page that is shown turned by so many quarters. */
async function textOf(content: string, rotation = 0): Promise<string> {
  const font = '<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>';
  const bytes = pdf([
    '<< /Type /Catalog /Pages 2 0 R >>',
    '<< /Type /Pages /Count 1 /Kids [3 0 R] >>',
    `<< /Type /Page /Parent 2 0 R /MediaBox [0 0 ${WIDE} ${WIDE}] /Rotate ${rotation * 90} /Resources << /Font << /F ${font} >> >> /Contents 4 0 R >>`,
    stream('', `BT /F 12 Tf ${content} ET`),
  ]);
  const [page] = await readAll(extractor, bytes, 'turned.pdf');
  return page?.text ?? '';
}

/** Widths of Helvetica, in thousandths of its size. */
const WIDTHS: Readonly<Record<string, number>> = { f: 278, i: 222, l: 222, r: 333, t: 278 };

function letters(text: string, x: number, y: number): Piece[] {
  let at = x;
  return [...text].flatMap((letter): Piece[] => {
    const left = at;
    at += ((letter === ' ' ? 278 : (WIDTHS[letter] ?? 556)) * 12) / 1000;
    return letter === ' ' ? [] : [[letter, left, y]];
  });
}

const layouts: Readonly<Record<string, [pieces: readonly Piece[], text: string]>> = {
  'lines of a piece': [
    [
      ['It', 50, 300],
      ['is', 50, 286],
      ['in', 50, 272],
    ],
    'It\nis\nin',
  ],
  'words of a line': [
    [
      ['These', 50, 300],
      ['words', 88, 300],
      ['follow', 124, 300],
      ['those', 50, 286],
      ['above', 84, 286],
    ],
    'These words follow\nthose above',
  ],
  'cells of a row': [
    [
      ['in this', 50, 300],
      ['cell', 170, 300],
      ['is', 50, 286],
    ],
    'in this\tcell\nis',
  ],
  'letters of a word': [
    [...letters('for the little', 50, 300), ...letters('rifle', 50, 286)],
    'for the little\nrifle',
  ],
};

for (const [name, [pieces, text]] of Object.entries(layouts)) {
  t.test(`${name} come in the order in which they are read`, async (t) => {
    for (const quarters of [0, 1, 2, 3]) {
      for (const rotation of [0, 1, 2, 3])
        t.equal(await textOf(drawn(pieces, quarters), rotation), text, `${quarters} ${rotation}`);
    }
  });
}

t.test('lines that run another way come where they are drawn', async (t) => {
  const [pieces, text] = layouts['words of a line'] ?? [[], ''];
  const [before, behind] = ['1 0 0 1 50 385 Tm (Before) Tj', '1 0 0 1 50 10 Tm (behind) Tj'];
  for (const quarters of [1, 2, 3]) {
    const content = [before, drawn(pieces, quarters), behind].join(' ');
    t.match(await textOf(content), new RegExp(`^Before\\s+${text}\\s+behind$`), `${quarters}`);
  }
});
