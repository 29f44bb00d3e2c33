/** Owns the proof that office documents and books made to do harm cost their sender a reason, and nobody else anything. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import epub from '../../../plugins/extractors/book/epub.js';
import doc from '../../../plugins/extractors/office/doc.js';
import docx from '../../../plugins/extractors/office/docx.js';
import pptx from '../../../plugins/extractors/office/pptx.js';
import xlsx from '../../../plugins/extractors/office/xlsx.js';
import type { ExtractorPlugin } from '../../../src/plugin/contract.js';
import { documentBounds } from '../../../src/pool/extraction.js';
import { listen } from '../../support/listen.js';
import { officePackage, relation, zip } from '../../support/zip.js';

const WORD = 'wordprocessingml.document';
const EXCEL = 'spreadsheetml.sheet';

interface Outcome {
  readonly text: string;
  readonly code: unknown;
  readonly reason: string;
}

async function read(
  plugin: ExtractorPlugin,
  bytes: Buffer,
  filename: string,
  bounds = documentBounds,
): Promise<Outcome> {
  const extractor = await plugin.open({ bounds, languages: [] });
  const document = { bytes, filename };
  const claim = extractor.accepts(document);
  if (claim === null) return { text: '', code: 'not claimed', reason: '' };
  let text = '';
  try {
    for await (const page of extractor.extract(document, claim)) text += `${page.text}\f`;
    return { text, code: null, reason: '' };
  } catch (cause) {
    const { code, message } = cause as Error & { code?: unknown };
    return { text, code, reason: message };
  } finally {
    await extractor.close();
  }
}

const paragraph = (text: string) => `<w:p><w:r><w:t>${text}</w:t></w:r></w:p>`;
const word = (body: string) => `<w:document><w:body>${body}</w:body></w:document>`;

t.test('archives that unpack to far more than they are', async (t) => {
  const zeros = Buffer.alloc(8 * 1024 * 1024, 0x20);
  const bomb = officePackage(WORD, word(''), [], [{ name: 'word/bomb.xml', bytes: zeros }]);
  t.match(await read(docx, bomb, 'x.docx'), { code: 'bound', reason: /100 times/ });

  const digits = Array.from({ length: 100 }, (_, at) => at).join(' ');
  const shared = officePackage(
    WORD,
    word(paragraph(digits)),
    [],
    Array.from({ length: 50 }, (_, at) => ({ name: `${at}`, bytes: digits, shared: true })),
  );
  t.match(await read(docx, shared, 'x.docx'), { code: 'damaged', reason: /overlap/ });

  const liar = officePackage(
    WORD,
    word(paragraph('a')),
    [relation('s', 'styles', 'styles.xml')],
    [{ name: 'styles.xml', bytes: 'x'.repeat(100_000), unpackedBytes: 100 }],
  );
  t.match(await read(docx, liar, 'x.docx'), { code: 'bound', reason: /larger than it says/ });

  const many = Array.from({ length: 10_001 }, (_, at) => ({ name: `${at}`, bytes: '' }));
  t.match(await read(docx, zip(many), 'x.docx'), { code: 'bound', reason: /10000 entries/ });

  const inner = officePackage(WORD, word(paragraph('inner')));
  const nested = officePackage(
    WORD,
    word(paragraph('outer')),
    [],
    [{ name: 'b.zip', bytes: inner }],
  );
  t.match(await read(docx, nested, 'x.docx'), { code: null, text: 'outer\f' });
});

t.test('markup that nests or multiplies', async (t) => {
  const deep = '<w:tbl><w:tr><w:tc>'.repeat(100);
  t.match(await read(docx, officePackage(WORD, word(deep)), 'x.docx'), {
    code: 'bound',
    reason: /256 deep/,
  });
  const entities =
    '<!DOCTYPE d [<!ENTITY a "lol"><!ENTITY b "&a;&a;&a;&a;"><!ENTITY c SYSTEM "file:///etc/passwd">]>';
  const outcome = await read(
    docx,
    officePackage(WORD, entities + word(paragraph('&b;&c;end'))),
    'x',
  );
  t.match(outcome, { code: null, text: /end/ });
  t.notMatch(outcome.text, /lol|root:/);
});

t.test('nothing is fetched and no file is read, whatever a document refers to', async (t) => {
  let requests = 0;
  const server = createServer((_, response) => {
    requests += 1;
    response.end(paragraph('fetched'));
  });
  const port = await listen(t, server);
  const folder = mkdtempSync(join(tmpdir(), 'preface-links-'));
  t.teardown(() => rmSync(folder, { recursive: true }));
  const secret = join(folder, 'secret.xml');
  writeFileSync(secret, word(paragraph('secret')));

  const url = `http://127.0.0.1:${port}/x.xml`;
  const up = `${'../'.repeat(20)}${secret}`;
  const targets = [url, secret, up, `file://${secret}`];
  const types = [
    'header',
    'footer',
    'styles',
    'numbering',
    'footnotes',
    'attachedTemplate',
    'image',
  ];
  const related = types.flatMap((type) =>
    targets.flatMap((target, at) => [
      relation(`${type}${at}`, type, target, 'External'),
      relation(`${type}${at}i`, type, target),
    ]),
  );
  const body = word(`${paragraph('shown')}<w:altChunk r:id="header0"/><v:imagedata src="${url}"/>`);
  const outcome = await read(docx, officePackage(WORD, body, related), 'x.docx');
  t.match(outcome, { code: null, text: 'shown\f' });

  const opf = (href: string) =>
    `<package><metadata/><manifest><item id="a" href="${href}"/><item id="b" href="ok.html"/></manifest><spine><itemref idref="a"/><itemref idref="b"/></spine></package>`;
  const container = '<container><rootfile full-path="OPS/p.opf"/></container>';
  for (const href of [...targets, '../../../../../etc/passwd', '%2e%2e/%2e%2e/etc/passwd']) {
    const book = zip([
      { name: 'META-INF/container.xml', bytes: container },
      { name: 'OPS/p.opf', bytes: opf(href) },
      {
        name: 'OPS/ok.html',
        bytes: `<img src="${url}"/><script src="${url}"></script><p>chapter</p>`,
      },
    ]);
    t.match(await read(epub, book, 'x.epub'), { code: null, text: '\fchapter\f' }, href);
  }
  t.equal(requests, 0, 'the network was left alone');
});

t.test('sheets that claim to be as large as can be', async (t) => {
  const sheet = (rows: string) =>
    `<worksheet><dimension ref="A1:XFD1048576"/><sheetData>${rows}</sheetData></worksheet>`;
  const cells =
    '<row r="1"><c r="A1"><v>1</v></c></row><row r="1048576"><c r="XFD1048576"><v>2</v></c></row>';
  const book = '<workbook><sheets><sheet name="S" r:id="s"/></sheets></workbook>';
  const related = [relation('s', 'worksheet', 's.xml'), relation('t', 'sharedStrings', 't.xml')];
  const claims = officePackage(EXCEL, book, related, [{ name: 's.xml', bytes: sheet(cells) }]);
  t.match(await read(xlsx, claims, 'x.xlsx'), { code: null, text: '# S\n\n1\n\t2\f' });

  // One long string, shown by more cells than text may have.
  const shown = Array.from({ length: 3_000 }, (_, at) => `<c r="A${at}" t="s"><v>0</v></c>`).join(
    '',
  );
  const long = Array.from({ length: 100_000 }, (_, at) => at).join(' ');
  const bomb = officePackage(EXCEL, book, related, [
    {
      name: 's.xml',
      bytes: sheet(
        shown.replace(/<c r="A(\d+)"/g, '<row r="$1"><c r="A$1"').replaceAll('</c>', '</c></row>'),
      ),
    },
    { name: 't.xml', bytes: `<sst><si><t>${long}</t></si></sst>` },
  ]);
  const bounds = { ...documentBounds, textLengthMax: 4_000_000 };
  t.match(await read(xlsx, bomb, 'x.xlsx', bounds), {
    code: 'bound',
    reason: /characters of text/,
  });
});

t.test('a presentation says which slide comes when, not the names of its files', async (t) => {
  const slide = (text: string) =>
    `<p:sld><p:sp><a:p><a:r><a:t>${text}</a:t></a:r></a:p></p:sp></p:sld>`;
  const main =
    '<p:presentation><p:sldIdLst><p:sldId id="9" r:id="b"/><p:sldId id="8" r:id="a"/></p:sldIdLst></p:presentation>';
  const related = [relation('a', 'slide', 'slide1.xml'), relation('b', 'slide', 'slide2.xml')];
  const bytes = officePackage('presentationml.presentation', main, related, [
    { name: 'slide1.xml', bytes: slide('second') },
    { name: 'slide2.xml', bytes: slide('first') },
  ]);
  t.match(await read(pptx, bytes, 'x.pptx'), { code: null, text: 'first\fsecond\f' });
});

t.test('what is protected says so', async (t) => {
  const document = (name: string) =>
    readFileSync(new URL(`../../../../test/documents/office/${name}`, import.meta.url));
  const protectedDocx = document('testWORD_protected_passtika.docx');
  t.match(await read(docx, protectedDocx, 'x.docx'), { code: 'encrypted', reason: /password/ });
  const protectedDoc = document('testWORD_protected_passtika.doc');
  t.match(await read(doc, protectedDoc, 'x.doc'), { code: 'encrypted', reason: /password/ });

  const book = zip([
    {
      name: 'META-INF/container.xml',
      bytes: '<container><rootfile full-path="p.opf"/></container>',
    },
    {
      name: 'META-INF/encryption.xml',
      bytes: '<encryption><CipherData><CipherReference URI="a.html"/></CipherData></encryption>',
    },
    {
      name: 'p.opf',
      bytes:
        '<package><manifest><item id="a" href="a.html"/></manifest><spine><itemref idref="a"/></spine></package>',
    },
    { name: 'a.html', bytes: 'noise' },
  ]);
  t.match(await read(epub, book, 'x.epub'), { code: 'encrypted', reason: /rights/ });
});

t.test('a container whose chain of sectors bites its tail', async (t) => {
  const bytes = Buffer.from(
    readFileSync(new URL('../../../../test/documents/office/testWORD.doc', import.meta.url)),
  );
  const table = (bytes.readInt32LE(76) + 1) * 512;
  for (let sector = 0; sector < 128; sector++) bytes.writeInt32LE(sector ^ 1, table + sector * 4);
  t.match(await read(doc, bytes, 'x.doc'), { code: 'damaged' });
});
