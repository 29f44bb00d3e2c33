/** Owns the proof that text of any encoding is read as it was written. */
import { TextDecoder, TextEncoder } from 'node:util';
import t from 'tap';
import plugin from '../../../plugins/extractors/text/text.js';
import { extractorSuite } from '../../../src/plugin/test/extractor.js';
import { documentBounds } from '../../../src/pool/extraction.js';

const bytes = (text: string) => new TextEncoder().encode(text);

extractorSuite(t, {
  plugin,
  documents: [
    {
      bytes: bytes('# Harbour\r\n\r\nThe light is kept by grüne Männer.\r\n'),
      filename: 'notes.md',
      fileType: 'text/markdown',
      ground: 'name',
      words: ['# Harbour', 'kept by grüne Männer.'],
      pages: 1,
      title: '',
    },
    {
      bytes: bytes('name,city\n"Li, Na",北京\n'),
      filename: 'TABLE.CSV',
      fileType: 'text/csv',
      ground: 'name',
      words: ['name,city', '"Li, Na",北京'],
    },
    {
      bytes: bytes('just words\n'.repeat(100)),
      filename: 'words',
      fileType: 'text/plain',
      ground: 'text',
      words: ['just words', 'just words'],
    },
  ],
});

async function read(source: Uint8Array, filename = 'a.txt'): Promise<string> {
  const extractor = await plugin.open({ bounds: documentBounds, languages: [] });
  const document = { bytes: source, filename };
  const claim = extractor.accepts(document);
  if (claim === null) return 'not claimed';
  let all = '';
  for await (const { text } of extractor.extract(document, claim)) all += text;
  return all;
}

/** What only a table of the encoding can give: every one of its characters that the text needs. */
function encoded(text: string, encoding: string): Uint8Array {
  const decoder = new TextDecoder(encoding, { fatal: true });
  const table = new Map<string, number[]>();
  for (let lead = 0; lead < 0x100; lead += 1) {
    if (lead < 0x80) table.set(String.fromCharCode(lead), [lead]);
    for (let trail = -1; lead >= 0x80 && trail < 0x100; trail += 1) {
      const units = trail < 0 ? [lead] : [lead, trail];
      try {
        const character = decoder.decode(Uint8Array.from(units));
        if ([...character].length === 1 && !table.has(character)) table.set(character, units);
      } catch {
        // No character.
      }
    }
  }
  return Uint8Array.from([...text].flatMap((character) => table.get(character) ?? [0x3f]));
}

const texts = {
  gb18030: '中文文本的编码需要被正确地识别出来。港口的灯塔由一位老人看守，他每天晚上都会点亮它。',
  shift_jis: '日本語のテキストです。港の灯台は老人が守っています。毎晩、彼はそれを灯します。',
  'euc-kr': '한국어 텍스트입니다. 항구의 등대는 노인이 지키고 있습니다.',
  'windows-1251': 'Маяк в гавани охраняет старик, который каждый вечер зажигает огонь.',
};

for (const [encoding, text] of Object.entries(texts)) {
  t.test(`${encoding} is read without a mark`, async (t) => {
    const source = encoded(text, encoding);
    t.notOk(source.includes(0x3f), 'the encoding has it all');
    t.equal(await read(source), text);
    const table = `id,text\r\n1,"${text}"\r\n`;
    t.equal(await read(encoded(table, encoding), 'a.csv'), table.replaceAll('\r', ''));
  });
}

t.test('UTF-16 and UTF-32 are read, with a mark or without', async (t) => {
  const text = 'The light, 灯, is kept. It burns all night long.\n';
  const little = Buffer.from(text, 'utf16le');
  t.equal(await read(little), text);
  t.equal(await read(Buffer.from(little).swap16()), text);
  t.equal(await read(Buffer.from(`\ufeff${text}`, 'utf16le').swap16()), text);
  const wide = Buffer.alloc(4 * (text.length + 1));
  for (const [at, character] of [...`\ufeff${text}`].entries()) {
    wide.writeUInt32LE(character.codePointAt(0) ?? 0, 4 * at);
  }
  t.equal(await read(wide), text);
});

t.test('windows-1252 is read with its quotes and its euro sign', async (t) => {
  // As bytes: Node's own table of this encoding lacks what lies between 0x80 and 0x9f.
  const source = Buffer.from(
    'Les élèves, près du phare où l\x92été s\x92achève: 5 \x80 \x93net\x94.',
    'latin1',
  );
  t.equal(await read(source), 'Les élèves, près du phare où l’été s’achève: 5 € “net”.');
});
