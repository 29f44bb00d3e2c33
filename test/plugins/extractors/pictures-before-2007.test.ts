/** Owns the proof that pictures and documents within documents of Office before 2007 are read. */
import t from 'tap';
import { blipAt, blipsIn } from '../../../plugins/extractors/office/blips.js';
import doc from '../../../plugins/extractors/office/doc.js';
import { openOle } from '../../../plugins/extractors/office/ole.js';
import ppt from '../../../plugins/extractors/office/ppt.js';
import { writeOle } from '../../../plugins/extractors/office/sheetjs.js';
import xls from '../../../plugins/extractors/office/xls.js';
import { documentBytes, openForTest, readAll } from '../../support/documents.js';

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

t.test('what a picture in a doc says follows its text', async (t) => {
  const parts = ['WordDocument', '0Table', '1Table'];
  const bytes = changed('testWORD.doc', parts, { Data: blip(jpeg, JPEG) });
  const extractor = await openForTest(doc);
  t.teardown(() => extractor.close());
  const plain = await readAll(extractor, changed('testWORD.doc', parts, {}), 'a.doc');
  const pages = await readAll(extractor, bytes, 'a.doc');
  t.ok(pages.at(-1)?.text.startsWith(`${plain.at(-1)?.text}\n\n`));
  t.match(pages.at(-1)?.text, WORD);
  t.match(pages.at(-1), { pictures: 1, recognized: Number });
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
  const stored = blip(jpeg, JPEG);
  const drawn = [
    record(0xeb, stored.subarray(0, 1000)),
    record(0x3c, stored.subarray(1000, 1500)),
    record(0xeb, stored.subarray(1500, 9000)),
    ...(stored.length > 9000 ? [record(0x3c, stored.subarray(9000))] : []),
  ];
  const extractor = await openForTest(xls);
  t.teardown(() => extractor.close());
  const plain = await readAll(extractor, writeOle({ Workbook: stream }), 'a.xls');
  const bytes = writeOle({ Workbook: Buffer.concat([stream, ...drawn]) });
  const pages = await readAll(extractor, bytes, 'a.xls');
  t.same(pages.slice(0, -1), plain.slice(0, -1));
  t.ok(pages.at(-1)?.text.startsWith(plain.at(-1)?.text ?? 'no page'));
  t.match(pages.at(-1)?.text, WORD);
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
  t.match(both.slice(alone.length), await textOf(writeOle(object)));
  const damaged = { ...object, WordDocument: Buffer.alloc(900, 1) };
  t.equal(await textOf(changed('testWORD.doc', parts, within(damaged))), alone);
});
