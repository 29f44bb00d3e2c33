/** Owns the proof that Mobipocket books are read: bytes as they are, PalmDOC pairs, and locks that are named. */
import t from 'tap';
import plugin from '../../../plugins/extractors/book/mobi.js';
import { extractorSuite } from '../../../src/plugin/test/extractor.js';
import { documentBounds } from '../../../src/pool/extraction.js';

const text =
  '<html><head><title>no</title></head><body><h1>Harbour</h1><p>The light is kept by gr\xfcne M\xe4nner \x96 always.</p>' +
  '<mbp:pagebreak/><h2>Night</h2><ul><li>Lamp<li>Oil</ul><table><tr><td>a<td>b</table></body></html>';

interface Book {
  readonly compression: number;
  readonly records: readonly Buffer[];
  readonly encryption?: number;
}

/** A database of Palm with the header of a Mobipocket book. */
function book({ compression, records, encryption = 0 }: Book): Buffer {
  const title = Buffer.from('Of Lamps', 'latin1');
  const head = Buffer.alloc(16 + 232);
  head.writeUInt16BE(compression, 0);
  head.writeUInt16BE(records.length, 8);
  head.writeUInt16BE(encryption, 12);
  head.write('MOBI', 16, 'latin1');
  head.writeUInt32BE(232, 20);
  head.writeUInt32BE(1252, 28);
  head.writeUInt32BE(6, 36);
  head.writeUInt32BE(head.length, 84);
  head.writeUInt32BE(title.length, 88);
  const all = [Buffer.concat([head, title]), ...records];
  const start = Buffer.alloc(78 + 8 * all.length);
  start.write('BOOKMOBI', 60, 'latin1');
  start.writeUInt16BE(all.length, 76);
  let at = start.length;
  for (const [index, record] of all.entries()) {
    start.writeUInt32BE(at, 78 + index * 8);
    at += record.length;
  }
  return Buffer.concat([start, ...all]);
}

/** Literals for what is no ASCII, a space with its letter, and a pair that copies what came before. */
function palmDoc(bytes: Buffer): Buffer {
  const packed: number[] = [];
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at] ?? 0;
    const next = bytes[at + 1] ?? 0;
    const before = at === 0 ? -1 : bytes.lastIndexOf(bytes.subarray(at, at + 5), at - 1);
    if (at + 5 <= bytes.length && before >= 0 && at - before < 2048) {
      const pair = 0x8000 | ((at - before) << 3) | 2;
      packed.push(pair >> 8, pair & 0xff);
      at += 4;
    } else if (byte === 0x20 && next >= 0x40 && next < 0x80) {
      packed.push(next ^ 0x80);
      at += 1;
    } else if (byte >= 0x80) packed.push(1, byte);
    else packed.push(byte);
  }
  return Buffer.from(packed);
}

const raw = Buffer.from(text, 'latin1');
const words = ['# Harbour', 'kept by grüne Männer – always.', '## Night', '• Lamp • Oil', 'a\tb'];
const good = {
  fileType: 'application/x-mobipocket-ebook',
  title: 'Of Lamps',
  pages: 2,
  words,
};

extractorSuite(t, {
  plugin,
  documents: [
    {
      ...good,
      bytes: book({ compression: 1, records: [raw.subarray(0, 100), raw.subarray(100)] }),
      filename: 'plain.mobi',
      reaches: ['unpackedBytesMax', 'nestingMax'],
    },
    {
      ...good,
      bytes: book({ compression: 2, records: [palmDoc(raw)] }),
      filename: 'packed.mobi',
      reaches: ['unpackedBytesMax', 'unpackRatioMax', 'nestingMax'],
    },
  ],
});

async function refusalOf(bytes: Buffer): Promise<unknown> {
  const extractor = await plugin.open({ bounds: documentBounds, languages: [] });
  const document = { bytes, filename: 'x.mobi' };
  const claim = extractor.accepts(document);
  if (claim === null) return 'not claimed';
  try {
    for await (const _ of extractor.extract(document, claim));
    return null;
  } catch (cause) {
    return (cause as { code?: unknown }).code;
  }
}

t.test('what cannot be read says why', async (t) => {
  t.equal(await refusalOf(book({ compression: 2, records: [raw], encryption: 2 })), 'encrypted');
  t.equal(await refusalOf(book({ compression: 17480, records: [raw] })), 'damaged');
  t.equal(await refusalOf(book({ compression: 9, records: [raw] })), 'unsupported');
  const copiesNothing = Buffer.from([0x80, 0x08]);
  t.equal(await refusalOf(book({ compression: 2, records: [copiesNothing] })), 'damaged');
});
