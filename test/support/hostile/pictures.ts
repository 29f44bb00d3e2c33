/**
 * Owns pictures and drawings that are made to do harm: sizes nobody can hold, entities that multiply, references outwards.
 * It must never hold many bytes: what is large in them is only said, or packed.
 */
import { crc32, deflateSync, gzipSync } from 'node:zlib';
import type { HostileDocument } from './document.js';

function chunk(kind: string, data: Buffer): Buffer {
  const body = Buffer.concat([Buffer.from(kind, 'latin1'), data]);
  const bytes = Buffer.alloc(body.length + 8);
  bytes.writeUInt32BE(data.length, 0);
  body.copy(bytes, 4);
  bytes.writeUInt32BE(crc32(body), body.length + 4);
  return bytes;
}

/** Grey, eight bits a pixel, with so many rows of data behind the header as it is given. */
export function png(
  width: number,
  height: number,
  rows: number,
  more: readonly Buffer[] = [],
): Buffer {
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header[8] = 8;
  return Buffer.concat([
    Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'),
    chunk('IHDR', header),
    ...more,
    chunk('IDAT', deflateSync(Buffer.alloc((width + 1) * rows))),
    chunk('IEND', Buffer.alloc(0)),
  ]);
}

/** One entry a field, inline values only. */
function tiff(fields: Readonly<Record<number, number>>, next = 0, offset = 8): Buffer {
  const entries = Object.entries(fields);
  const bytes = Buffer.alloc(offset + 2 + entries.length * 12 + 4 + 64, 0xaa);
  bytes.write('II*\0', 'latin1');
  bytes.writeUInt32LE(offset, 4);
  bytes.writeUInt16LE(entries.length, offset);
  entries.forEach(([tag, value], at) => {
    const place = offset + 2 + at * 12;
    bytes.writeUInt16LE(Number(tag), place);
    bytes.writeUInt16LE(4, place + 2);
    bytes.writeUInt32LE(1, place + 4);
    bytes.writeUInt32LE(value, place + 8);
  });
  bytes.writeUInt32LE(next, offset + 2 + entries.length * 12);
  return bytes;
}

const grey = { 258: 8, 259: 1, 262: 1, 273: 8, 277: 1, 279: 64 };

function bmp(width: number, height: number): Buffer {
  const bytes = Buffer.alloc(70);
  bytes.write('BM', 'latin1');
  bytes.writeUInt32LE(70, 2);
  bytes.writeUInt32LE(54, 10);
  bytes.writeUInt32LE(40, 14);
  bytes.writeInt32LE(width, 18);
  bytes.writeInt32LE(height, 22);
  bytes.writeUInt16LE(1, 26);
  bytes.writeUInt16LE(24, 28);
  return bytes;
}

function gif(width: number, height: number): Buffer {
  const bytes = Buffer.from(
    'GIF89a\0\0\0\0\x80\0\0\0\0\0\xff\xff\xff,\0\0\0\0\0\0\0\0\0\x02\x02D\x01\0;',
    'latin1',
  );
  bytes.writeUInt16LE(width, 6);
  bytes.writeUInt16LE(height, 8);
  bytes.writeUInt16LE(width, 24);
  bytes.writeUInt16LE(height, 26);
  return bytes;
}

const jpeg = Buffer.from(
  'ffd8ffe000104a46494600010100000100010000ffdb004300' +
    `${'10'.repeat(64)}ffc0000b08fde8fde801011100ffc4001400010000000000000000000000000000000009` +
    'ffda0008010100003f00ffd9',
  'hex',
);

function icon(picture: Buffer): Buffer {
  const head = Buffer.alloc(22);
  head.writeUInt16LE(1, 2);
  head.writeUInt16LE(1, 4);
  head.writeUInt32LE(picture.length, 14);
  head.writeUInt32LE(22, 18);
  return Buffer.concat([head, picture]);
}

function webp(width: number, height: number): Buffer {
  const bytes = Buffer.alloc(30);
  bytes.write('RIFF\x16\0\0\0WEBPVP8X\x0a\0\0\0', 'latin1');
  bytes.writeUIntLE(width - 1, 24, 3);
  bytes.writeUIntLE(height - 1, 27, 3);
  return bytes;
}

const tooLarge = /pixels/;
const SIDE = 65_000;

const pictures: readonly HostileDocument[] = [
  { name: 'a PNG', bytes: png(SIDE, SIDE, 0), filename: 'x.png', reason: tooLarge },
  { name: 'a PNG of 200 rows', bytes: png(SIDE, 200, 200), filename: 'x.png' },
  { name: 'a PNG of one row', bytes: png(SIDE, 1, 1), filename: 'x.png' },
  { name: 'a PNG of 2 ** 31 - 1', bytes: png(2 ** 31 - 1, 2 ** 31 - 1, 0), filename: 'x.png' },
  { name: 'a BMP', bytes: bmp(SIDE, -SIDE), filename: 'x.bmp', reason: tooLarge },
  { name: 'a GIF', bytes: gif(SIDE, SIDE), filename: 'x.gif', reason: tooLarge },
  { name: 'a JPEG', bytes: jpeg, filename: 'x.jpg', reason: tooLarge },
  { name: 'a WebP', bytes: webp(SIDE, SIDE), filename: 'x.webp' },
  {
    name: 'a TIFF',
    bytes: tiff({ 256: SIDE, 257: SIDE, ...grey }),
    filename: 'x.tiff',
    reason: tooLarge,
  },
  { name: 'an icon', bytes: icon(png(SIDE, SIDE, 0)), filename: 'x.ico' },
  {
    name: 'an XBM',
    bytes: Buffer.from(
      `#define x_width ${SIDE}\n#define x_height ${SIDE}\nstatic char x_bits[] = {\n0x00};`,
    ),
    filename: 'x.xbm',
    reason: tooLarge,
  },
].map((document) => ({ ...document, name: `${document.name}, ${SIDE} pixels wide` }));

const lies: readonly HostileDocument[] = [
  {
    name: 'a TIFF whose pages are a loop',
    bytes: tiff({ 256: 8, 257: 8, ...grey }, 8),
    filename: 'x.tiff',
  },
  {
    name: 'a PNG with a profile of 200 MB in its text',
    bytes: png(4, 4, 4, [
      chunk(
        'zTXt',
        Buffer.concat([Buffer.from('x\0\0'), deflateSync(Buffer.alloc(200 * 2 ** 20))]),
      ),
    ]),
    filename: 'x.png',
  },
];

// ----------------------------------------------------------------- drawings

const drawing = (body: string, doctype = '') =>
  Buffer.from(
    `<?xml version="1.0"?>${doctype}<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">${body}</svg>`,
  );

const laughs = Array.from(
  { length: 12 },
  (_, at) => `<!ENTITY e${at + 1} "${`&e${at};`.repeat(10)}">`,
).join('');

/** @param url where nobody may ever ask for anything. */
export function hostileDrawings(url: string): HostileDocument[] {
  const outwards = [url, 'file:///etc/passwd', '/etc/passwd', '\\\\127.0.0.1\\share'];
  return [
    {
      name: 'a drawing whose entities multiply',
      bytes: drawing('<text>&e12;</text>', `<!DOCTYPE svg [<!ENTITY e0 "ha">${laughs}]>`),
    },
    {
      name: 'a drawing whose entities are each other',
      bytes: drawing('<text>&a;</text>', '<!DOCTYPE svg [<!ENTITY a "&b;"><!ENTITY b "&a;">]>'),
    },
    ...outwards.map((to) => ({
      name: `a drawing that refers to ${to}`,
      bytes: drawing(
        `<script href="${to}"/><style>@import url("${to}"); text { fill: url("${to}") }</style>` +
          `<image href="${to}" xlink:href="${to}"/><use href="${to}#x"/><foreignObject><iframe src="${to}"/></foreignObject>` +
          `<xi:include xmlns:xi="http://www.w3.org/2001/XInclude" href="${to}" parse="text"/>` +
          '<text>before &out; behind</text><text>words of its own</text>',
        `<!DOCTYPE svg SYSTEM "${to}" [<!ENTITY out SYSTEM "${to}"><!ENTITY % more SYSTEM "${to}"> %more;]>`,
      ),
      text: /words of its own/,
    })),
    ...outwards.map((to) => ({
      name: `a drawing without words that shows ${to}`,
      bytes: drawing(
        `<style>@font-face { font-family: f; src: url("${to}") } path { fill: url("${to}#x"); filter: url("${to}") }</style>` +
          `<image href="${to}" xlink:href="${to}" width="90" height="90"/><use href="${to}#x" xlink:href="${to}#x"/>` +
          `<image href="data:image/svg+xml;base64,${Buffer.from(drawing(`<image href="${to}" width="9" height="9"/>`)).toString('base64')}" width="9" height="9"/>` +
          '<path d="M0 0h90v90z"/>',
        `<!DOCTYPE svg SYSTEM "${to}">`,
      ),
    })),
    {
      name: 'a drawing of 10 ** 9 pixels a side that draws itself',
      bytes: Buffer.from(
        '<svg xmlns="http://www.w3.org/2000/svg" width="1000000000" height="1000000000"><g id="a"><use href="#b"/><use href="#b"/></g><g id="b"><use href="#a"/><rect width="9" height="9"/></g></svg>',
      ),
    },
    { name: 'a drawing 100 000 deep', bytes: drawing('<g>'.repeat(100_000)), reason: /deep/ },
    {
      name: 'a packed drawing of 300 MB',
      bytes: gzipSync(Buffer.concat([drawing(''), Buffer.alloc(300 * 2 ** 20, ' ')])),
      filename: 'x.svgz',
    },
  ].map((document) => ({ filename: 'x.svg', ...document }));
}

export const hostilePictures: readonly HostileDocument[] = [...pictures, ...lies];
