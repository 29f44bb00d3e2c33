/**
 * Owns the proof that what stands between the rules of a table comes by its rows and cells, and that other lines make no table.
 * It must never place characters itself: each page is drawn by a document.
 */
import t from 'tap';
import plugin from '../../../plugins/extractors/pdf/pdf.js';
import { openForTest, readAll } from '../../support/documents.js';
import { pdf, stream } from '../../support/hostile/pdf.js';

const extractor = await openForTest(plugin);
t.teardown(() => extractor.close());

/** Of one page that draws this, 400 points in the square. */
async function textOf(content: string): Promise<string> {
  const font = '<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>';
  const page = `<< /Type /Page /Parent 2 0 R /MediaBox [0 0 400 400] /Resources << /Font << /F ${font} >> >> /Contents 4 0 R >>`;
  const bytes = pdf([
    '<< /Type /Catalog /Pages 2 0 R >>',
    '<< /Type /Pages /Count 1 /Kids [3 0 R] >>',
    page,
    stream('', content),
  ]);
  const [read] = await readAll(extractor, bytes, 'table.pdf');
  return read?.text ?? '';
}

const say = (text: string, x: number, y: number) => `BT /F 10 Tf ${x} ${y} Td (${text}) Tj ET`;
const across = (y: number, from = 50, to = 350) => `${from} ${y} m ${to} ${y} l S`;
const upright = (x: number, from = 200, to = 320) => `${x} ${from} m ${x} ${to} l S`;
/** Three rows of 40 points, columns from 50, 150 and 250 on. */
const GRID = [
  ...[200, 240, 280, 320].map((y) => across(y)),
  ...[50, 150, 250, 350].map((x) => upright(x)),
];

const WRAPPED = [
  say('Before the table.', 50, 350),
  say('Item', 55, 305),
  say('Price', 155, 305),
  say('Note', 255, 305),
  // Column by column, and a cell of two lines.
  say('A rather long', 55, 265),
  say('name', 55, 253),
  say('12', 155, 265),
  say('new', 255, 265),
  say('Other', 55, 225),
  say('7', 155, 225),
  say('Behind it.', 50, 150),
];
const READ =
  'Before the table.\n\nItem\tPrice\tNote\nA rather long name\t12\tnew\nOther\t7\t\n\nBehind it.';

t.test('a cell of several lines is one, and an empty one keeps its place', async (t) => {
  t.equal(await textOf([...GRID, ...WRAPPED].join('\n')), READ);
});

t.test('the order in which cells are drawn does not matter', async (t) => {
  const byColumn = [0, 1, 4, 5, 8, 2, 6, 9, 3, 7, 10].flatMap((at) => WRAPPED[at] ?? []);
  t.same(byColumn.toSorted(), WRAPPED.toSorted());
  t.equal(await textOf([...byColumn, ...GRID].join('\n')), READ);
});

t.test(
  'rules are lines, bars and rectangles, and the edges of shaded cells where nothing is drawn',
  async (t) => {
    const bars = [200, 240, 280, 320].map((y) => `50 ${y} 300 0.5 re f`);
    const posts = [50, 150, 250, 350].map((x) => `${x} 200 0.5 120 re f`);
    t.equal(await textOf([...bars, ...posts, ...WRAPPED].join('\n')), READ, 'bars');
    const cells = [200, 240, 280].flatMap((y) => [50, 150, 250].map((x) => `${x} ${y} 100 40 re`));
    t.equal(await textOf([`${cells.join(' ')} S`, ...WRAPPED].join('\n')), READ, 'one path');
    const shades = cells.map((cell, at) => `${at % 2 ? 0.8 : 0.9} g ${cell} f 0 g`);
    t.equal(await textOf([...shades, ...WRAPPED].join('\n')), READ, 'shades');
    const inner = '0.9 g 55 250 90 28 re f 155 250 90 28 re f 0 g';
    t.equal(await textOf([...GRID, inner, ...WRAPPED].join('\n')), READ, 'a shade within a cell');
    t.equal(
      await textOf(['q 0.5 0 0 0.5 0 0 cm 2 0 0 2 0 0 cm', ...GRID, 'Q', ...WRAPPED].join('\n')),
      READ,
    );
  },
);

t.test('a table may be open at its sides, and a cell may be wide', async (t) => {
  const open = [
    ...[200, 240, 280, 320].map((y) => across(y)),
    upright(150),
    upright(250, 200, 280),
  ];
  const words = [
    say('Year', 55, 300),
    say('Sales in all', 155, 300),
    say('2024', 55, 260),
    say('north', 155, 260),
    say('south', 255, 260),
    say('2025', 55, 220),
    say('east', 155, 220),
    say('west', 255, 220),
  ];
  const text = await textOf([...open, ...words].join('\n'));
  t.equal(text, 'Year\tSales in all\t\n2024\tnorth\tsouth\n2025\teast\twest');
});

t.test('rows without a rule between them stay rows', async (t) => {
  const lines = [
    across(200),
    across(300),
    across(320),
    ...[50, 150, 250].map((x) => upright(x)),
    upright(350),
  ];
  const years = [2021, 2022, 2023].map((year, at) =>
    [
      say(`of ${year}`, 55, 280 - at * 14),
      say(`${year - 2000}.5`, 155, 280 - at * 14),
      say(`${at}`, 255, 280 - at * 14),
    ].join('\n'),
  );
  const head = [say('Year', 55, 305), say('Share', 155, 305), say('Rank', 255, 305)];
  const text = await textOf([...lines, ...head, ...years].join('\n'));
  t.equal(text, 'Year\tShare\tRank\nof 2021\t21.5\t0\nof 2022\t22.5\t1\nof 2023\t23.5\t2');
});

t.test('a frame, a line below a heading and the grid of a chart make no table', async (t) => {
  const words = [say('Left of it,', 60, 300), say('and below.', 60, 288)];
  const alone = await textOf(words.join('\n'));
  t.equal(
    await textOf(['50 200 300 120 re S', across(290), ...words].join('\n')),
    alone,
    'a frame',
  );
  t.equal(await textOf([across(320), across(296), ...words].join('\n')), alone, 'lines');
  const chart = [
    ...Array.from({ length: 9 }, (_, at) => across(200 + at * 15)),
    ...Array.from({ length: 9 }, (_, at) => upright(50 + at * 37.5)),
  ];
  t.equal(await textOf([...chart, ...words].join('\n')), alone, 'a chart');
  t.equal(
    await textOf([...GRID.map((line) => line.replace('S', 'n')), ...WRAPPED].join('\n')),
    await textOf(WRAPPED.join('\n')),
    'lines that are not drawn',
  );
});

t.test('a word that is too long for its cell stays whole', async (t) => {
  const words = WRAPPED.map((each) => each.replace('(name)', '(name, uncharacteristically)'));
  const read = READ.replace('long name', 'long name, uncharacteristically');
  t.equal(await textOf([...GRID, ...words].join('\n')), read);
});

t.test('lines that cut words are those of a drawing', async (t) => {
  const posts = Array.from({ length: 15 }, (_, at) => upright(50 + at * 21));
  const lines = [310, 290, 270, 250, 230].map((y) => say('Text that was here before', 60, y));
  const drawing = [...[200, 240, 280, 320].map((y) => across(y)), ...posts];
  t.equal(await textOf([...drawing, ...lines].join('\n')), await textOf(lines.join('\n')));
});

t.test('a page of many thousand lines is a drawing', async (t) => {
  const strokes = Array.from({ length: 12_000 }, (_, at) => across(200 + (at % 120)));
  const paths = Array.from({ length: 30 }, (_, at) => {
    const points = Array.from({ length: 1_900 }, (_, n) => `${n % 300} ${(n * at) % 300} l`);
    return `0 0 m ${points.join(' ')} S`;
  });
  const plain = await textOf(WRAPPED.join('\n'));
  t.equal(await textOf([...strokes, ...GRID, ...WRAPPED].join('\n')), plain, 'of paths');
  t.equal(await textOf([...paths, ...GRID, ...WRAPPED].join('\n')), plain, 'of points');
});
