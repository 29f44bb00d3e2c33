import fc from 'fast-check';
import t from 'tap';
import { ApiError } from '../../src/errors.js';
import {
  IMAGE_TOKENS_MAX,
  imageSizeOfDataUrl,
  imageTokens,
  PATCH_PIXELS,
} from '../../src/rules/image-tokens.js';

const WIDTH = 1234;
const HEIGHT = 567;

function dataUrl(bytes: Buffer, type = 'image/png'): string {
  return `data:${type};base64,${bytes.toString('base64')}`;
}

function png(width: number, height: number): Buffer {
  const bytes = Buffer.alloc(33);
  bytes.write('\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR', 'latin1');
  bytes.writeUInt32BE(width, 16);
  bytes.writeUInt32BE(height, 20);
  return bytes;
}

/** With `padding` bytes of metadata before the frame, as cameras write it. */
function jpeg(width: number, height: number, padding: number): Buffer {
  const segments: Buffer[] = [Buffer.from([0xff, 0xd8])];
  for (let left = padding; left > 0; left -= 60_000) {
    const segment = Buffer.alloc(2 + Math.min(left, 60_000) + 2, 0xc0);
    segment.writeUInt16BE(0xffe1, 0);
    segment.writeUInt16BE(segment.length - 2, 2);
    segments.push(segment);
  }
  const table = Buffer.from([0xff, 0xc4, 0, 4, 1, 2]);
  const frame = Buffer.from([0xff, 0xff, 0xc2, 0, 17, 8, 0, 0, 0, 0, 3, 0, 0, 0, 0]);
  frame.writeUInt16BE(height, 6);
  frame.writeUInt16BE(width, 8);
  return Buffer.concat([...segments, table, frame]);
}

function webp(kind: string, fill: (bytes: Buffer) => void): Buffer {
  const bytes = Buffer.alloc(32);
  bytes.write('RIFF\0\0\0\0WEBP', 'latin1');
  bytes.write(kind, 12, 'latin1');
  fill(bytes);
  return bytes;
}

function bmp(width: number, height: number): Buffer {
  const bytes = Buffer.alloc(54);
  bytes.write('BM', 'latin1');
  bytes.writeUInt32LE(40, 14);
  bytes.writeInt32LE(width, 18);
  bytes.writeInt32LE(height, 22);
  return bytes;
}

const oldBmp = Buffer.alloc(26);
oldBmp.write('BM', 'latin1');
oldBmp.writeUInt32LE(12, 14);
oldBmp.writeUInt16LE(WIDTH, 18);
oldBmp.writeUInt16LE(HEIGHT, 20);

const gif = Buffer.alloc(16);
gif.write('GIF89a', 'latin1');
gif.writeUInt16LE(WIDTH, 6);
gif.writeUInt16LE(HEIGHT, 8);

const images: Readonly<Record<string, Buffer>> = {
  png: png(WIDTH, HEIGHT),
  'jpeg, progressive, after a table': jpeg(WIDTH, HEIGHT, 0),
  'jpeg behind 200 KB of metadata': jpeg(WIDTH, HEIGHT, 200_000),
  'webp, lossy': webp('VP8 ', (bytes) => {
    bytes.writeUIntBE(0x9d012a, 23, 3);
    bytes.writeUInt16LE(WIDTH | 0x4000, 26);
    bytes.writeUInt16LE(HEIGHT, 28);
  }),
  'webp, lossless': webp('VP8L', (bytes) => {
    bytes[20] = 0x2f;
    bytes.writeUInt32LE((WIDTH - 1) | ((HEIGHT - 1) << 14), 21);
  }),
  'webp, extended': webp('VP8X', (bytes) => {
    bytes.writeUIntLE(WIDTH - 1, 24, 3);
    bytes.writeUIntLE(HEIGHT - 1, 27, 3);
  }),
  gif,
  bmp: bmp(WIDTH, HEIGHT),
  'bmp, rows from the top': bmp(WIDTH, -HEIGHT),
  'bmp, the oldest header': oldBmp,
};

function refusal(url: string): string {
  try {
    imageSizeOfDataUrl(url, 'messages[0].content[1].image_url.url');
  } catch (cause) {
    if (cause instanceof ApiError && cause.extra.param?.endsWith('url')) return cause.message;
    throw cause;
  }
  return 'taken';
}

t.test('the size is read from the header', async (t) => {
  for (const [name, bytes] of Object.entries(images)) {
    t.same(imageSizeOfDataUrl(dataUrl(bytes), 'url'), { width: WIDTH, height: HEIGHT }, name);
  }
});

t.test('the bytes decide, not the declared type', async (t) => {
  t.same(imageSizeOfDataUrl(dataUrl(png(3, 4), 'image/jpeg'), 'url'), { width: 3, height: 4 });
  t.same(imageSizeOfDataUrl(dataUrl(png(3, 4), ''), 'url'), { width: 3, height: 4 });
});

t.test('what is no image is refused in words', async (t) => {
  t.match(refusal('https://example.org/a.png'), /must be a data URL.*got "https:\/\/example/);
  t.match(refusal('data:image/png,rawtext'), /must be a data URL with base64/);
  t.match(refusal(dataUrl(Buffer.from('%PDF-1.7 and more of it'), 'application/pdf')), /png, jpeg/);
  t.match(refusal('data:image/png;base64,'), /its bytes are none/);
  t.match(refusal(dataUrl(png(0, 4))), /got 0 × 4/);
  t.match(refusal(dataUrl(png(70_000, 4))), /1 to 65535 pixels.*got 70000 × 4/);
  t.notMatch(refusal(`data:${'x'.repeat(100_000)}`), /x{50}/);
});

t.test('a header that is cut or lies about its lengths harms nobody', async (t) => {
  fc.assert(
    fc.property(
      fc.constantFrom(...Object.values(images)),
      fc.nat(60),
      fc.uint8Array({ maxLength: 30 }),
      (image, length, noise) => {
        const said = refusal(dataUrl(Buffer.concat([image.subarray(0, length), noise])));
        return said === 'taken' || said.startsWith('Invalid request: messages[0]');
      },
    ),
  );
  t.pass();
});

t.test('an image costs its patches', async (t) => {
  t.equal(imageTokens({ width: 1, height: 1 }), 1);
  t.equal(imageTokens({ width: PATCH_PIXELS, height: PATCH_PIXELS }), 1);
  t.equal(imageTokens({ width: PATCH_PIXELS + 1, height: PATCH_PIXELS }), 2);
  t.equal(imageTokens({ width: 1024, height: 768 }), 37 * 28);
});

t.test('a large image costs no more than the bound, and nearly as much', async (t) => {
  t.equal(imageTokens({ width: 64 * 28, height: 64 * 28 }), IMAGE_TOKENS_MAX);
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 65_535 }),
      fc.integer({ min: 1, max: 65_535 }),
      (w, h) => {
        const tokens = imageTokens({ width: w, height: h });
        return Number.isInteger(tokens) && tokens >= 1 && tokens <= IMAGE_TOKENS_MAX;
      },
    ),
  );
  t.ok(imageTokens({ width: 8000, height: 6000 }) > IMAGE_TOKENS_MAX * 0.95);
});

t.test('an image counts by its pixels, not by its bytes', async (t) => {
  const small = imageSizeOfDataUrl(dataUrl(png(280, 280)), 'url');
  const long = Buffer.concat([png(280, 280), Buffer.alloc(2_000_000, 1)]);
  t.equal(imageTokens(imageSizeOfDataUrl(dataUrl(long), 'url')), imageTokens(small));
});
