/**
 * Owns archives, office documents, books and plain files that are made to do harm.
 * It must never hold many bytes for long: what is large is made when it is asked for.
 */
import { deflateRawSync } from 'node:zlib';
import { type Entry, officePackage, relation, zip } from '../zip.js';
import type { HostileDocument } from './document.js';

const MIB = 2 ** 20;
const WORD = 'wordprocessingml.document';
const EXCEL = 'spreadsheetml.sheet';
const word = (body: string) => `<w:document><w:body>${body}</w:body></w:document>`;
const paragraph = (text: string) => `<w:p><w:r><w:t>${text}</w:t></w:r></w:p>`;
const blanks = (bytes: number) => Buffer.alloc(bytes, ' ');

function nested(depth: number, inner: Buffer): Buffer {
  let bytes = inner;
  for (let level = 0; level < depth; level += 1) {
    bytes = zip(Array.from({ length: 4 }, (_, at) => ({ name: `${at}.zip`, bytes })));
  }
  return bytes;
}

const media = (entries: readonly Entry[]) =>
  officePackage(WORD, word(paragraph('shown')), [], entries);
const bomb = { name: 'word/media/b.bin', bytes: blanks(64 * MIB) };

const bombs: readonly HostileDocument[] = [
  { name: 'a flat bomb in a document', bytes: media([bomb]), filename: 'x.docx' },
  {
    name: 'a document that is the bomb',
    bytes: officePackage(WORD, word(paragraph('x'.repeat(150 * MIB)))),
    filename: 'x.docx',
    reason: /unpack|times/,
  },
  {
    name: 'a bomb that says it is small',
    bytes: officePackage(WORD, word(paragraph('shown')), [], [{ ...bomb, unpackedBytes: 10 }]),
    filename: 'x.docx',
  },
  {
    name: 'entries that overlap',
    bytes: zip(
      Array.from({ length: 3_000 }, (_, at) => ({
        name: at === 0 ? '[Content_Types].xml' : `part${at}.xml`,
        bytes: at === 0 ? `<Types>${' '.repeat(MIB)}</Types>` : '',
        shared: at > 0,
      })),
    ),
    filename: 'x.docx',
  },
  {
    name: 'bombs in bombs',
    bytes: nested(6, zip([bomb])),
    filename: 'x.zip',
    reason: /ZIP archive without a document that can be read/,
  },
  {
    name: 'bombs in bombs in a document',
    bytes: media([{ name: 'word/embeddings/n.docx', bytes: nested(4, zip([bomb])) }]),
    filename: 'x.docx',
    text: /shown/,
  },
  {
    name: 'more entries than may be',
    bytes: media(Array.from({ length: 60_000 }, (_, at) => ({ name: `e${at}`, bytes: '' }))),
    filename: 'x.docx',
    reason: /entries/,
  },
  {
    name: 'a raw stream that never ends',
    bytes: deflateRawSync(blanks(64 * MIB)),
    filename: 'x.bin',
    reason: /not supported/,
  },
];

/** @param url where nobody may ever ask for anything. */
export function outwardDocuments(url: string): HostileDocument[] {
  const targets = [url, 'file:///etc/passwd', '../../../../../../etc/passwd', '/etc/passwd'];
  const fields = targets.map(
    (to) =>
      `<w:p><w:fldSimple w:instr=" INCLUDETEXT &quot;${to}&quot; "><w:r><w:t>field</w:t></w:r></w:fldSimple></w:p>`,
  );
  const related = targets.flatMap((to, at) => [
    relation(`x${at}`, 'image', to, 'External'),
    relation(`t${at}`, 'attachedTemplate', to, 'External'),
    relation(`f${at}`, 'subDocument', to, 'External'),
    relation(`i${at}`, 'header', to),
  ]);
  const doctype = `<!DOCTYPE w:document [<!ENTITY a SYSTEM "file:///etc/passwd"><!ENTITY b SYSTEM "${url}">]>`;
  return [
    {
      name: 'a document with links outwards',
      bytes: officePackage(
        WORD,
        doctype + word(`${fields.join('')}${paragraph('&a;&b; words')}`),
        related,
      ),
      filename: 'x.docx',
      text: /words/,
    },
    {
      name: 'a table with links outwards',
      bytes: officePackage(
        EXCEL,
        '<workbook><sheets><sheet name="S" r:id="s"/></sheets></workbook>',
        [relation('s', 'worksheet', 's.xml'), ...related],
        [
          {
            name: 's.xml',
            bytes: `<worksheet><sheetData><row r="1"><c r="A1"><f>WEBSERVICE("${url}")</f><v>7</v></c></row></sheetData></worksheet>`,
          },
        ],
      ),
      filename: 'x.xlsx',
      text: /7/,
    },
    ...targets.map((to) => book(`a book whose chapter is ${to}`, to)),
    {
      name: 'a page that refers outwards',
      bytes: Buffer.from(
        `<!DOCTYPE html><html><head><link rel="stylesheet" href="${url}"><base href="${url}"></head><body>` +
          targets
            .map(
              (to) =>
                `<img src="${to}"><iframe src="${to}"></iframe><object data="${to}"></object>`,
            )
            .join('') +
          '<p>words of its own</p></body></html>',
      ),
      filename: 'x.html',
      text: /words of its own/,
    },
  ];
}

function book(name: string, href: string, more: readonly Entry[] = []): HostileDocument {
  const opf = `<package><metadata/><manifest><item id="a" href="${href}"/><item id="b" href="ok.html"/></manifest><spine><itemref idref="a"/><itemref idref="b"/></spine></package>`;
  return {
    name,
    bytes: zip([
      {
        name: 'META-INF/container.xml',
        bytes: '<container><rootfile full-path="OPS/p.opf"/></container>',
      },
      { name: 'OPS/p.opf', bytes: opf },
      { name: 'OPS/ok.html', bytes: '<p>a chapter</p>' },
      ...more,
    ]),
    filename: 'x.epub',
    text: /a chapter/,
  };
}

const tricks: readonly HostileDocument[] = [
  book('a book with paths of tricks', '..%2f..%2f..%2fetc%2fpasswd', [
    { name: '../../../../../../etc/cron.d/evil', bytes: 'evil' },
    { name: '/etc/passwd', bytes: 'evil' },
    { name: 'C:\\Windows\\evil', bytes: 'evil' },
    { name: 'OPS/\0ok.html', bytes: 'evil' },
  ]),
  book('a book whose chapter is its own container', '../META-INF/container.xml'),
  {
    name: 'a book that is the file of its own contents',
    bytes: zip([
      {
        name: 'META-INF/container.xml',
        bytes: '<container><rootfile full-path="META-INF/container.xml"/></container>',
      },
    ]),
    filename: 'x.epub',
  },
];

/** Made when they are asked for: 50 MB each. */
export const longLines: readonly (() => HostileDocument)[] = [
  () => ({
    name: 'a table of one line of 50 MB',
    bytes: Buffer.alloc(50 * MIB, 'word,"a cell",12;'),
    filename: 'x.csv',
    text: /^word/,
  }),
  () => ({
    name: 'a table of 50 MB that is one open quote',
    bytes: Buffer.concat([Buffer.from('"'), Buffer.alloc(50 * MIB, 'a,')]),
    filename: 'x.csv',
    text: /a,a/,
  }),
];

export const hostileArchives: readonly HostileDocument[] = [...bombs, ...tricks];
