/** Owns the proof that what opens in Excel without a question is read, and that nothing else is. */
import { createHash } from 'node:crypto';
import t from 'tap';
import {
  KeyStream,
  openedPackage,
  openedWorkbook,
} from '../../../plugins/extractors/office/default-password.js';
import docx from '../../../plugins/extractors/office/docx.js';
import { openOle } from '../../../plugins/extractors/office/ole.js';
import { loadSheetJs, writeOle } from '../../../plugins/extractors/office/sheetjs.js';
import xls from '../../../plugins/extractors/office/xls.js';
import xlsx from '../../../plugins/extractors/office/xlsx.js';
import type { ExtractorPlugin } from '../../../src/plugin/contract.js';
import { documentBytes, openForTest, readAll } from '../../support/documents.js';

await loadSheetJs();

async function read(plugin: ExtractorPlugin, bytes: Uint8Array, name: string): Promise<string> {
  const extractor = await openForTest(plugin, {}, []);
  try {
    return (await readAll(extractor, bytes, name)).map(({ text }) => text).join('\f');
  } finally {
    await extractor.close();
  }
}

const office = (name: string) => documentBytes(`office/${name}`);
const workbookOf = (name: string) => openOle(office(name)).stream('Workbook') as Buffer;
const utf16 = (text: string) => Buffer.from(text, 'utf16le');

t.test('packages of 2007 and of 2010 and later are opened with the default password', async (t) => {
  t.match(await read(xlsx, office('poi-protect.xlsx'), 'a.xlsx'), /^# Лист1\n\nПри запуске/);
  t.equal(
    await read(docx, office('poi-protected_agile.docx'), 'a.docx'),
    'Agile protected document',
  );
});

t.test(
  'one with another password, or with fields that are not of the format, stays closed',
  async (t) => {
    const other = office('testWORD_protected_passtika.docx');
    await t.rejects(read(docx, other, 'a.docx'), { code: 'encrypted' });
    const container = openOle(office('poi-protected_agile.docx'));
    const [info, stored] = ['EncryptionInfo', 'EncryptedPackage'].map((name) =>
      container.stream(name),
    );
    if (!info || !stored) throw new Error('not an encrypted package');
    const changes: [RegExp, string][] = [
      [/spinCount="\d+"/g, 'spinCount="99999999"'],
      [/spinCount="\d+"/g, 'spinCount="x"'],
      [/hashAlgorithm="\w+"/g, 'hashAlgorithm="MD2"'],
      [/cipherAlgorithm="\w+"/g, 'cipherAlgorithm="RC2"'],
      [/saltValue="[^"]*"/g, 'saltValue=""'],
      [/keyBits="\d+"/g, 'keyBits="-8"'],
      [/encryptedKeyValue="[^"]*"/g, ''],
      [/<p:encryptedKey/g, '<p:other'],
    ];
    for (const [found, put] of changes) {
      const changed = Buffer.from(info.toString('latin1').replace(found, put), 'latin1');
      t.notSame(changed, info, put);
      const bytes = writeOle({ EncryptionInfo: changed, EncryptedPackage: stored });
      await t.rejects(read(docx, bytes, 'a.docx'), { code: 'encrypted' }, put);
    }
    const short = writeOle({ EncryptionInfo: info.subarray(0, 6), EncryptedPackage: stored });
    await t.rejects(read(docx, short, 'a.docx'), { code: 'encrypted' });
  },
);

/** The package in a document whose fields of encryption are changed. */
function openedWith(change: (fields: string) => string): Uint8Array | null {
  const container = openOle(office('poi-protected_agile.docx'));
  const info = container.stream('EncryptionInfo')?.toString('latin1') ?? '';
  const put = Buffer.from(change(info), 'latin1');
  return openedPackage({
    ...container,
    stream: (name) => (name === 'EncryptionInfo' ? put : container.stream(name)),
  });
}

t.test('fields that are larger than the format has them are not worked with', (t) => {
  const salt = (bytes: number) => `saltValue="${Buffer.alloc(bytes, 5).toString('base64')}"`;
  const fill = (bytes: number) => (fields: string) =>
    fields.replace(/(<\/encryption>)/, `<!--${'-'.repeat(bytes - fields.length - 5)}>$1`);
  t.ok(openedWith((fields) => fields));
  t.ok(
    openedWith((fields) => fields.replace(/saltValue="[^"]*"/, salt(64))),
    'of the data',
  );
  t.equal(
    openedWith((fields) => fields.replace(/saltValue="[^"]*"/, salt(65))),
    null,
  );
  t.equal(
    openedWith((fields) => fields.replace(/keyBits="\d+"/, 'keyBits="512"')),
    null,
  );
  t.equal(
    openedWith((fields) => fields.replace(/blockSize="16"/, 'blockSize="016"')),
    null,
  );
  t.ok(openedWith((fields) => fill(65_000)(fields)));
  t.equal(openedWith(fill(65_537 + 4)), null);
  t.end();
});

t.test('of several keys the first that is made from a password counts', (t) => {
  const found = /<p:encryptedKey\b[^>]*>/;
  const wanted = openedWith((fields) => fields);
  t.ok(wanted);
  const others = [
    '<c:encryptedKey encryptedKeyValue="AAAA" certVerifier="AAAA"/>',
    '<p:encryptedKey spinCount="1" saltValue="AAAA"/>',
  ];
  for (const other of others) {
    t.same(
      openedWith((fields) => fields.replace(found, `$&${other}`)),
      wanted,
      other,
    );
  }
  t.same(
    openedWith((fields) => fields.replace(found, `${others[0]}$&`)),
    wanted,
    'before it',
  );
  t.end();
});

t.test('bytes behind a workbook do not lock it', (t) => {
  const record = (type: number, ...body: number[]) =>
    Buffer.of(type & 255, type >> 8, body.length, 0, ...body);
  const pass = record(0x2f, 9, 9);
  const begin = record(0x809, 0, 6);
  const end = record(0x0a);
  const sheet = record(0x85, 0, 0, 0, 0);
  const readable = [
    [begin, end, pass],
    [begin, sheet, pass, end],
    [begin, end, Buffer.alloc(7)],
    [begin],
  ].map((parts) => Buffer.concat(parts));
  for (const stream of readable) t.equal(openedWorkbook(stream), stream);
  t.equal(openedWorkbook(Buffer.concat([begin, pass, end])), null);
  t.end();
});

t.test('workbooks of before 2007 are opened by both ways of RC4', async (t) => {
  const ways = { 'poi-password.xls': 'password', 'poi-35897-type4.xls': 'freedom' };
  for (const [name, password] of Object.entries(ways)) {
    const opened = openedWorkbook(workbookOf(name), utf16(password));
    t.ok(opened, name);
    if (opened === null) continue;
    t.match(await read(xls, writeOle({ Workbook: opened }), 'a.xls'), /^# \S[^\n]*\n\n\S/, name);
    t.equal(openedWorkbook(workbookOf(name)), null, 'and not without it');
    await t.rejects(read(xls, office(name), 'a.xls'), { code: 'encrypted' });
  }
});

/** Encrypted again, by the older way of RC4, with the default password. */
function lockedAgain(stream: Buffer): Buffer {
  const md5 = (...parts: readonly Uint8Array[]) =>
    parts.reduce((hash, part) => hash.update(part), createHash('md5')).digest();
  const salt = Buffer.alloc(16, 7);
  const first = md5(utf16('VelvetSweatshop')).subarray(0, 5);
  const base = md5(...Array.from({ length: 16 }, () => [first, salt]).flat()).subarray(0, 5);
  const keys = new KeyStream((block) => md5(base, Buffer.of(block, block >> 8, 0, 0)));
  const mixed = (bytes: Buffer, from: number) =>
    Buffer.from(bytes.map((byte, at) => byte ^ keys.at(from + at)));
  const said = Buffer.alloc(16, 9);
  const out = Buffer.from(stream);
  for (let at = 0; at + 4 <= stream.length; at += 4 + stream.readUInt16LE(at + 2)) {
    const type = stream.readUInt16LE(at);
    const end = at + 4 + stream.readUInt16LE(at + 2);
    const from = at + (type === 0x85 ? 8 : 4);
    if (type === 0x0fff) {
      out.writeUInt16LE(0x2f, at);
      const check = mixed(Buffer.concat([said, md5(said)]), 0);
      Buffer.concat([Buffer.of(1, 0, 1, 0, 1, 0), salt, check]).copy(out, at + 4);
    } else if (![0x809, 0xe1].includes(type))
      mixed(stream.subarray(from, end), from).copy(out, from);
  }
  return out;
}

t.test('a workbook of before 2007 with the default password is read', async (t) => {
  const plain = openedWorkbook(workbookOf('poi-password.xls'), utf16('password'));
  if (plain === null) throw new Error('not opened');
  const wanted = await read(xls, writeOle({ Workbook: plain }), 'a.xls');
  const locked = lockedAgain(plain);
  t.notOk(locked.equals(plain));
  t.equal(await read(xls, writeOle({ Workbook: locked }), 'a.xls'), wanted);
  const damaged = Buffer.from(locked);
  const pass = damaged.indexOf(Buffer.of(0x2f, 0, 54, 0));
  damaged.writeUInt16LE(2, pass + 4);
  await t.rejects(read(xls, writeOle({ Workbook: damaged }), 'a.xls'), { code: 'encrypted' });
});

/** For the default password, as the format's tables have them: key, check, and what each byte is mixed with. */
const XOR_FIELDS = Buffer.from('59b30a9a', 'hex');
const XOR_ARRAY = Buffer.from('876b9ae21ee305621e699660986e9404', 'hex');

/** As Excel 95 hides it. @param fields of the record that takes the place of one that says nothing. */
function hidden(stream: Buffer, fields: Buffer): Buffer {
  const out = Buffer.from(stream);
  for (let at = 0; at + 4 <= stream.length; at += 4 + stream.readUInt16LE(at + 2)) {
    const type = stream.readUInt16LE(at);
    const length = stream.readUInt16LE(at + 2);
    if (type === 0x0fff) {
      out.writeUInt16LE(0x2f, at);
      fields.copy(out, at + 4);
      continue;
    }
    if ([0x809, 0xe1].includes(type)) continue;
    for (let place = at + (type === 0x85 ? 8 : 4); place < at + 4 + length; place += 1) {
      const byte = stream[place] ?? 0;
      const mixed = ((byte << 5) | (byte >> 3)) & 255;
      out[place] = mixed ^ (XOR_ARRAY[(place + length) % 16] ?? 0);
    }
  }
  return out;
}

t.test('a workbook that is hidden by the way of Excel 95 is read', async (t) => {
  const plain = openedWorkbook(workbookOf('poi-password.xls'), utf16('password'));
  if (plain === null) throw new Error('not opened');
  const wanted = await read(xls, writeOle({ Workbook: plain }), 'a.xls');
  const fields = Buffer.concat([Buffer.alloc(2), XOR_FIELDS]);
  const made = hidden(plain, fields);
  t.notOk(made.equals(plain));
  t.equal(await read(xls, writeOle({ Workbook: made }), 'a.xls'), wanted);
  for (const at of [2, 4]) {
    const other = Buffer.from(fields);
    other[at] = (other[at] ?? 0) ^ 1;
    const bytes = writeOle({ Workbook: hidden(plain, other) });
    await t.rejects(read(xls, bytes, 'a.xls'), { code: 'encrypted' }, 'with another password');
  }
});

t.test('Excel 95 itself does not name the way, and all of its records are hidden alike', (t) => {
  const record = (type: number, body: Buffer) => {
    const head = Buffer.alloc(4);
    head.writeUInt16LE(type, 0);
    head.writeUInt16LE(body.length, 2);
    return Buffer.concat([head, body]);
  };
  const plain = Buffer.concat([
    record(0x809, Buffer.of(0, 5, 5, 0)),
    record(0x0fff, XOR_FIELDS),
    record(0x85, Buffer.from('\x10\0\0\0\0\0\x05light', 'latin1')),
    record(0x204, Buffer.from('it burns all night', 'latin1')),
    record(0x0a, Buffer.alloc(0)),
  ]);
  const made = hidden(plain, XOR_FIELDS);
  t.notOk(made.includes('burns'));
  t.same(openedWorkbook(made), plain);
  t.equal(openedWorkbook(made, utf16('another')), null);
  t.equal(openedWorkbook(made, utf16('VelvetSweatshop and more')), null);
  t.equal(openedWorkbook(made, utf16('')), null);
  t.end();
});
