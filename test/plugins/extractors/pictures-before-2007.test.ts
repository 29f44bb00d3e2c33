/** Owns the proof that pictures and documents within documents of Office before 2007 are read. */
import t from 'tap';
import { blipAt, blipsIn, storedBlips } from '../../../plugins/extractors/office/blips.js';
import doc from '../../../plugins/extractors/office/doc.js';
import { docPictures } from '../../../plugins/extractors/office/doc-pictures.js';
import { DocText } from '../../../plugins/extractors/office/doc-text.js';
import { openOle } from '../../../plugins/extractors/office/ole.js';
import ppt from '../../../plugins/extractors/office/ppt.js';
import { PptPictures } from '../../../plugins/extractors/office/ppt-pictures.js';
import type { PptRecord } from '../../../plugins/extractors/office/ppt-records.js';
import { loadSheetJs, writeOle } from '../../../plugins/extractors/office/sheetjs.js';
import xls from '../../../plugins/extractors/office/xls.js';
import { documentBytes, openForTest, readAll } from '../../support/documents.js';

await loadSheetJs();

t.setTimeout(240_000);

/** What the picture says, among others. */
const WORD = 'Tesseract.js';
const png = Buffer.from(documentBytes('crom.png'));
const jpeg = Buffer.from(documentBytes('pictures/simple.jpg'));
const JPEG = 0xf01d;

/** A record of a picture as Office stores it. @param checksums one or two. */
function blip(picture: Uint8Array, type = 0xf01e, checksums = 1): Buffer {
  const head = Buffer.alloc(8 + 16 * checksums + 1, 0xaa);
  head.writeUInt16LE(0x6e00, 0);
  head.writeUInt16LE(type, 2);
  head.writeUInt32LE(head.length - 8 + picture.length, 4);
  return Buffer.concat([head, picture]);
}

function escher(type: number, bytes: Buffer): Buffer {
  const head = Buffer.alloc(8);
  head.writeUInt16LE(0x0f, 0);
  head.writeUInt16LE(type, 2);
  head.writeUInt32LE(bytes.length, 4);
  return Buffer.concat([head, bytes]);
}

/** An entry of a drawing's store. @param shapes that show its picture. */
function entry(picture: Buffer, shapes: number, name = ''): Buffer {
  const fields = Buffer.alloc(36);
  fields.writeUInt32LE(shapes, 24);
  fields.writeUInt8(name.length, 33);
  const made = escher(0xf007, Buffer.concat([fields, Buffer.from(name), picture]));
  made.writeUInt16LE(2, 0);
  return made;
}

const store = (...entries: readonly Buffer[]) =>
  escher(0xf000, escher(0xf001, Buffer.concat(entries)));

/** Some streams of a container, and others in place of theirs. */
function changed(name: string, kept: readonly string[], put: Readonly<Record<string, Buffer>>) {
  const container = openOle(documentBytes(`office/${name}`));
  const streams = kept.flatMap((each) => {
    const bytes = container.stream(each);
    return bytes === null ? [] : [[each, bytes] as const];
  });
  return writeOle({ ...Object.fromEntries(streams), ...put });
}

t.test('records of pictures are told from bytes that look like them', (t) => {
  const bytes = Buffer.concat([
    Buffer.from('00001ef0', 'hex'),
    blip(png),
    Buffer.from('1df01ef01df0', 'hex'),
    blip(jpeg, JPEG, 2),
    blip(Buffer.from('no picture'), 0xf01e),
    blip(jpeg, 0xf01f),
    blip(png).subarray(0, 300),
  ]);
  const found = blipsIn(bytes);
  t.same(
    found.map(({ name }) => name),
    ['picture 1', 'picture 2'],
  );
  t.same(found[0]?.bytes(), png);
  t.same(found[1]?.bytes(), jpeg);
  t.equal(blipAt(bytes, -1), null);
  t.equal(blipAt(bytes, bytes.length - 3), null);
  t.end();
});

t.test('pictures that lie one in another are one', (t) => {
  const inner = Array.from({ length: 20 }, () => blip(png.subarray(0, 40)));
  const outer = blip(Buffer.concat([png.subarray(0, 40), ...inner]));
  const [first, second, ...others] = blipsIn(
    Buffer.concat([outer, blip(png)]),
    null,
    blip(jpeg, JPEG),
  );
  t.equal(first?.bytes()?.length, outer.length - 25);
  t.same(second?.bytes(), png);
  t.same(
    others.map(({ name }) => name),
    ['picture 3'],
    'numbers go on over the streams',
  );
  t.end();
});

t.test('a document has no more pictures than its bound, from all of its streams', (t) => {
  const small = Buffer.concat(Array.from({ length: 6000 }, () => blip(png.subarray(0, 8))));
  t.equal(blipsIn(small).length, 6000);
  t.equal(blipsIn(small, small).length, 10_000);
  t.end();
});

t.test('of the pictures in a store those are shown that a shape refers to', (t) => {
  const drawing = Buffer.concat([
    store(entry(blip(png), 0), entry(blip(jpeg, JPEG), 2, 'name')),
    store(entry(blip(png), 1), entry(Buffer.alloc(0), 1), entry(blip(png).subarray(0, 90), 1)),
  ]);
  const found = storedBlips(drawing, new Set([1, 2, 3, 4, 5]));
  t.same(
    found.map(({ bytes }) => bytes()),
    [jpeg, png],
  );
  const named = storedBlips(drawing, new Set([1, 3, 0, 99]));
  t.same(
    named.map(({ bytes }) => bytes()),
    [png],
    'and that a shape names',
  );
  t.same(storedBlips(drawing.subarray(0, 60), new Set([1])), []);
  t.end();
});

const word = ['WordDocument', '0Table', '1Table'];

/** Where the second of the two pictures in the lines of `testWORD.doc` lies. */
const SECOND_PLACE = 1334;
/** A picture of which the text knows, and behind it one that it has lost. */
const lines = Buffer.concat([
  Buffer.alloc(SECOND_PLACE),
  sized(blip(jpeg, JPEG)),
  Buffer.from(blip(png)),
]);

/** Behind its own length. */
function sized(picture: Buffer): Buffer {
  const length = Buffer.alloc(4);
  length.writeUInt32LE(4 + picture.length);
  return Buffer.concat([length, picture]);
}

t.test('what a picture in a doc says follows its text', async (t) => {
  const bytes = changed('testWORD.doc', word, { Data: lines });
  const extractor = await openForTest(doc);
  t.teardown(() => extractor.close());
  const plain = await readAll(extractor, changed('testWORD.doc', word, {}), 'a.doc');
  const pages = await readAll(extractor, bytes, 'a.doc');
  t.ok(pages.at(-1)?.text.startsWith(`${plain.at(-1)?.text}\n\n`));
  t.match(pages.at(-1)?.text, WORD);
  t.match(pages.at(-1), { pictures: 1, recognized: Number });
});

interface WordStreams {
  readonly main: Buffer;
  readonly table: Buffer;
  readonly data: Buffer | null;
}

function streamsOf(name: string): WordStreams {
  const container = openOle(documentBytes(`office/${name}`));
  const main = container.stream('WordDocument');
  const second = ((main?.readUInt16LE(0x0a) ?? 0) & 0x0200) !== 0;
  const table = container.stream(second ? '1Table' : '0Table');
  if (main === null || table === null) throw new Error('no text');
  return { main, table, data: null };
}

const picturesOf = (streams: WordStreams) =>
  docPictures(streams, new DocText(streams.main, streams.table, 1_000_000).anchors()).map(
    ({ bytes }) => bytes(),
  );

t.test('a picture in a line is shown while the text refers to it', (t) => {
  const streams = { ...streamsOf('testWORD.doc'), data: lines };
  t.same(picturesOf(streams), [jpeg]);
  const both = Buffer.from(lines);
  both.writeUInt32LE(both.length, 1209);
  t.same(picturesOf({ ...streams, data: both }), [jpeg], 'lengths that overlap count it once');
  // Its mark, which says that it is no letter, is made the mark of what a change deletes.
  const location = Buffer.of(0x03, 0x6a, SECOND_PLACE & 255, SECOND_PLACE >> 8, 0, 0);
  const main = Buffer.from(streams.main);
  const at = main.indexOf(location);
  const mark = main.indexOf(Buffer.of(0x55, 0x08, 1), at);
  t.ok(at > 0 && mark > at && mark < at + 16);
  main.writeUInt16LE(0x0800, mark);
  t.same(picturesOf({ ...streams, main }), []);
  t.end();
});

/** Names of options whose value is the number of a picture. */
const PICTURE = 0x4104;
const FILL = 0x4186;
const LINE_FILL = 0x41c5;
const nothing = Buffer.alloc(0);

/** A record that holds no others. */
function atom(type: number, instance: number, bytes: Buffer): Buffer {
  const made = escher(type, bytes);
  made.writeUInt16LE(instance << 4, 0);
  return made;
}

/** @param first what stands before its fields. @param name of the option: a picture, unless it says otherwise. */
function shape(
  id: number,
  picture: number,
  first: Buffer = Buffer.alloc(0),
  name = PICTURE,
): Buffer {
  const fields = Buffer.alloc(8);
  fields.writeUInt32LE(id);
  const option = Buffer.alloc(6);
  option.writeUInt16LE(name, 0);
  option.writeUInt32LE(picture, 2);
  const records = [first, atom(0xf00a, 0, fields), atom(0xf00b, 1, option)];
  return escher(0xf004, Buffer.concat(records));
}

/** Without a picture of its own: it lies elsewhere. */
function entryAt(place: number): Buffer {
  const made = entry(Buffer.alloc(0), 1);
  made.writeUInt32LE(place, 8 + 28);
  return made;
}

/** A document with one shape that floats, which becomes a group; @param anchored of the two pictures, those in its group. */
function floating(
  anchored: readonly number[],
  name = PICTURE,
  background: Buffer = nothing,
): WordStreams {
  const { main, table } = streamsOf('testWORD_numbered_list.doc');
  const id = table.readUInt32LE(main.readUInt32LE(0x1da) + 8);
  const entries = [entryAt(main.length), entryAt(main.length + blip(png).length)];
  const bounds = atom(0xf009, 0, Buffer.alloc(16));
  const group = [
    shape(id, 0, bounds),
    ...anchored.map((number) => shape(90 + number, number, nothing, name)),
  ];
  const patriarch = [shape(1, 0), escher(0xf003, Buffer.concat(group)), shape(80, 1), shape(81, 2)];
  const drawings = Buffer.concat([
    store(...entries),
    Buffer.alloc(1),
    escher(0xf002, Buffer.concat([escher(0xf003, Buffer.concat(patriarch)), background])),
  ]);
  const changedTable = Buffer.concat([table, drawings]);
  const changedMain = Buffer.concat([main, blip(png), blip(jpeg, JPEG)]);
  changedMain.writeUInt32LE(table.length, 0x22a);
  changedMain.writeUInt32LE(drawings.length, 0x22e);
  return { main: changedMain, table: changedTable, data: null };
}

t.test('a picture that floats is shown while a shape that is anchored in the text has it', (t) => {
  t.same(picturesOf(floating([2])), [jpeg]);
  t.same(picturesOf(floating([2, 1, 2])), [png, jpeg]);
  t.same(picturesOf(floating([0, 3, 99])), []);
  const lost = floating([1]);
  lost.table.writeUInt32LE(0x00ffffff, lost.main.readUInt32LE(0x1da));
  t.same(picturesOf(lost), [], 'whose anchor is no longer in the text');
  for (const name of [FILL, LINE_FILL]) t.same(picturesOf(floating([2], name)), [jpeg], 'a fill');
  const background = floating([], PICTURE, shape(2, 1, nothing, FILL));
  t.same(picturesOf(background), [png], 'what fills the background');
  background.table.writeUInt32LE(0x00ffffff, background.main.readUInt32LE(0x1da));
  t.same(picturesOf(background), [png], 'also of a text without anchors');
  t.end();
});

t.test('a doc whose drawings are damaged keeps its text', async (t) => {
  const { main, table } = floating([1]);
  main.writeUInt32LE(0xfffffff0, 0x22a);
  main.writeUInt32LE(0xfffffff0, 0x1da);
  const name = (main.readUInt16LE(0x0a) & 0x0200) === 0 ? '0Table' : '1Table';
  const extractor = await openForTest(doc, {}, []);
  t.teardown(() => extractor.close());
  const textOf = async (bytes: Uint8Array) =>
    (await readAll(extractor, bytes, 'a.doc')).map(({ text }) => text);
  const whole = await textOf(changed('testWORD_numbered_list.doc', word, {}));
  t.same(await textOf(writeOle({ WordDocument: main, [name]: table })), whole);
});

t.test('what a picture in a xls says follows its sheets, in however many records', async (t) => {
  const stream = openOle(documentBytes('office/testEXCEL.xls')).stream('Workbook');
  if (stream === null) throw new Error('no workbook');
  const record = (type: number, bytes: Buffer) => {
    const head = Buffer.alloc(4);
    head.writeUInt16LE(type, 0);
    head.writeUInt16LE(bytes.length, 2);
    return Buffer.concat([head, bytes]);
  };
  const stored = store(entry(blip(jpeg, JPEG), 1), entry(blip(png), 1), entry(blip(png), 0));
  const drawn = [
    record(0xeb, stored.subarray(0, 1000)),
    record(0x3c, stored.subarray(1000, 1500)),
    record(0xeb, stored.subarray(1500, 9000)),
    ...(stored.length > 9000 ? [record(0x3c, stored.subarray(9000))] : []),
  ];
  const extractor = await openForTest(xls);
  t.teardown(() => extractor.close());
  const plain = await readAll(extractor, writeOle({ Workbook: stream }), 'a.xls');
  const withShape = (...shapes: readonly Buffer[]) =>
    readAll(
      extractor,
      writeOle({ Workbook: Buffer.concat([stream, ...shapes, ...drawn]) }),
      'a.xls',
    );
  // In a drawing, and in what goes on behind another record.
  const named = [0xec, 0x3c].map((type) => record(type, shape(5, 1)));
  const filled = [FILL, LINE_FILL].map((name) => record(0xec, shape(5, 1, nothing, name)));
  for (const drawing of [...named, ...filled]) {
    const pages = await withShape(drawing);
    t.same(pages.slice(0, -1), plain.slice(0, -1));
    t.ok(pages.at(-1)?.text.startsWith(plain.at(-1)?.text ?? 'no page'));
    t.match(pages.at(-1)?.text, WORD);
  }
  const whole = shape(5, 1);
  for (const length of [1, 2, 3, 5]) {
    const at = whole.length - length;
    const [first, rest] = [whole.subarray(0, at), whole.subarray(at)];
    for (const pieces of [[rest], [rest.subarray(0, 1), rest.subarray(1)]]) {
      const goesOn = pieces.map((bytes) => record(0x3c, bytes));
      const pages = await withShape(record(0xec, first), ...goesOn);
      t.match(pages.at(-1), { pictures: 1 }, `the last ${length} bytes in records of their own`);
    }
  }
  const others = [record(0xec, shape(5, 2)), record(0x5d, shape(5, 1))];
  t.same(await withShape(...others), plain, 'one that no shape names');
  const margins = (flags: number, bytes: Buffer) =>
    record(0x866, Buffer.concat([Buffer.alloc(12), Buffer.of(flags, 0), bytes]));
  const [isDrawing, isStore, goesOn] = [1, 2, 4];
  const header = margins(isDrawing, shape(5, 1));
  t.same(await withShape(header), plain, 'a header names none of the store of the sheets');
  const own = store(entry(blip(documentBytes('pictures/simple.png')), 1));
  const inHeader = [
    margins(isStore, own.subarray(0, 500)),
    margins(isStore + goesOn, own.subarray(500, 800)),
    margins(goesOn, own.subarray(800, 1100)),
    record(0x3c, own.subarray(1100)),
  ];
  t.same(await withShape(...inHeader), plain, 'one that no shape of a header names');
  const pages = await withShape(...inHeader, header);
  t.match(pages.at(-1), { pictures: 1, text: WORD }, 'what a header shows');
  const both = await withShape(...inHeader, header, record(0xec, shape(5, 1)));
  t.match(both.at(-1), { pictures: 2 }, 'beside what a sheet shows');
});

t.test('a slide of a ppt has what its own pictures say', async (t) => {
  const parts = ['PowerPoint Document', 'Current User'];
  const name = 'poi-ppt_with_png.ppt';
  const extractor = await openForTest(ppt);
  t.teardown(() => extractor.close());
  const none = await readAll(extractor, changed(name, parts, {}), 'a.ppt');
  t.notOk(none.some(({ text }) => text.includes(WORD)));
  const pages = await readAll(
    extractor,
    changed(name, parts, { Pictures: blip(jpeg, JPEG) }),
    'a.ppt',
  );
  t.ok(pages.some(({ text, pictures }) => text.includes(WORD) && pictures === 1));
});

t.test('a document of Word that stands in another one follows its text', async (t) => {
  const inner = openOle(documentBytes('office/testWORD_numbered_list.doc'));
  const parts = ['WordDocument', '0Table', '1Table'];
  const within = (streams: Readonly<Record<string, Buffer>>) =>
    Object.fromEntries(
      Object.entries(streams).map(([name, bytes]) => [`/ObjectPool/_12/${name}`, bytes]),
    );
  const object: Record<string, Buffer> = {};
  for (const name of parts) {
    const bytes = inner.stream(name);
    if (bytes !== null) object[name] = bytes;
  }
  const extractor = await openForTest(doc, {}, []);
  t.teardown(() => extractor.close());
  const textOf = async (bytes: Uint8Array) =>
    (await readAll(extractor, bytes, 'a.doc')).map(({ text }) => text).join('\f');
  const alone = await textOf(changed('testWORD.doc', parts, {}));
  const both = await textOf(changed('testWORD.doc', parts, within(object)));
  t.ok(both.startsWith(alone) && both.length > alone.length);
  const innerText = await textOf(writeOle(object));
  t.match(both.slice(alone.length), innerText);
  const damaged = { ...object, WordDocument: Buffer.alloc(900, 1) };
  t.equal(await textOf(changed('testWORD.doc', parts, within(damaged))), alone);
});

t.test('a document within one that goes beyond a bound is told, not left out', async (t) => {
  const name = 'testWORD_numbered_list.doc';
  const parts = ['WordDocument', '0Table', '1Table'];
  const longer = openOle(documentBytes('office/testWORD.doc'));
  const object: Record<string, Buffer> = {};
  for (const part of parts) {
    const bytes = longer.stream(part);
    if (bytes !== null) object[`/ObjectPool/_12/${part}`] = bytes;
  }
  // With its fields the one within has some 900 characters, the other one some 800.
  const bounded = await openForTest(doc, { textLengthMax: 860 }, []);
  t.teardown(() => bounded.close());
  await t.resolves(readAll(bounded, changed(name, parts, {}), 'a.doc'));
  await t.rejects(readAll(bounded, changed(name, parts, object), 'a.doc'), { code: 'bound' });
});

/** With a chain that comes back to its own first sector. @param length of the stream, which tells it from others of its name. */
function looped(bytes: Buffer, name: string, length: number): Buffer {
  const out = Buffer.from(bytes);
  const sector = 2 ** out.readUInt16LE(30);
  const key = Buffer.from(`${name}\0`, 'utf16le');
  let at = out.indexOf(key);
  while (at >= 0 && !(at % 128 === 0 && out.readUInt32LE(at + 120) === length)) {
    at = out.indexOf(key, at + 1);
  }
  const start = out.readInt32LE(at + 116);
  const perTable = sector / 4;
  const table = out.readInt32LE(76 + 4 * Math.floor(start / perTable));
  out.writeInt32LE(start, (table + 1) * sector + (start % perTable) * 4);
  return out;
}

t.test('a damaged part that a document can do without costs only itself', async (t) => {
  const summary = '\u0005SummaryInformation';
  const slides = ['PowerPoint Document', 'Current User'];
  const inner = openOle(documentBytes('office/testWORD_numbered_list.doc')).stream('WordDocument');
  const main = Buffer.concat([inner ?? Buffer.alloc(0), Buffer.alloc(50_000)]);
  const cases = [
    { plugin: doc, name: 'testWORD.doc', kept: word, part: 'Data', bytes: lines },
    { plugin: doc, name: 'testWORD.doc', kept: word, part: summary, bytes: Buffer.alloc(5000) },
    {
      plugin: doc,
      name: 'testWORD.doc',
      kept: word,
      part: '/ObjectPool/_1/WordDocument',
      bytes: main,
    },
    {
      plugin: ppt,
      name: 'poi-ppt_with_png.ppt',
      kept: slides,
      part: 'Pictures',
      bytes: Buffer.alloc(5000),
    },
  ];
  for (const { plugin, name, kept, part, bytes } of cases) {
    const extractor = await openForTest(plugin, {}, []);
    t.teardown(() => extractor.close());
    const whole = changed(name, kept, { [part]: bytes });
    const damaged = looped(whole, part.replace(/^.*\//, ''), bytes.length);
    t.throws(() => openOle(damaged).stream(part.replace(/^\//, '')), { code: 'damaged' }, part);
    const wanted = await readAll(extractor, changed(name, kept, {}), name);
    t.ok(wanted.some(({ text }) => text !== ''));
    t.same(await readAll(extractor, damaged, name), wanted, part);
  }
});

/** Of the picture of a drawing that a shape shows. */
function pictureOption(number: number, name = PICTURE): PptRecord {
  const data = Buffer.alloc(6);
  data.writeUInt16LE(name, 0);
  data.writeUInt32LE(number, 2);
  return { type: 0xf00b, instance: 1, data, children: () => [] };
}

t.test('a picture that many shapes of a ppt name is one', (t) => {
  const within = (type: number, ...children: readonly PptRecord[]): PptRecord => ({
    type,
    instance: 0,
    data: Buffer.alloc(0),
    children: () => children,
  });
  const stored = { ...within(0xf007), data: Buffer.alloc(36) };
  const group = within(0x040b, within(0xf000, within(0xf001, stored, stored)));
  const pictures = new PptPictures(within(0, group), blip(png));
  const slide = within(0, ...[1, 1, 2, 1, 3, 0].map((number) => pictureOption(number)));
  const shown = pictures.shownBy(slide, 9).map(({ name }) => name);
  t.same(shown, ['picture 1', 'picture 2']);
  t.same(pictures.shownBy(slide, 9), [], 'nor again on another slide');
  const fills = within(0, pictureOption(2, LINE_FILL), pictureOption(1, FILL));
  const filled = new PptPictures(within(0, group), blip(png)).shownBy(fills, 9);
  t.same(
    filled.map(({ name }) => name),
    ['picture 2', 'picture 1'],
    'what fills a shape is shown, too',
  );
  t.end();
});
