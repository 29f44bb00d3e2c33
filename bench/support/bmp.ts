/**
 * Owns writing grey pixels as a BMP file, which every picture reader accepts.
 * It must never compress: the bench measures the recognition of letters.
 */
import type { GreyPicture } from '../../plugins/extractors/ocr/picture.js';

const HEAD_BYTES = 54;
const GREYS = 256;

export function bmpOf({ width, height, pixels }: GreyPicture): Uint8Array {
  const stride = (width + 3) & ~3;
  const start = HEAD_BYTES + 4 * GREYS;
  const file = Buffer.alloc(start + stride * height);
  file.write('BM', 0, 'latin1');
  file.writeUInt32LE(file.length, 2);
  file.writeUInt32LE(start, 10);
  file.writeUInt32LE(40, 14);
  file.writeInt32LE(width, 18);
  file.writeInt32LE(height, 22);
  file.writeUInt16LE(1, 26);
  file.writeUInt16LE(8, 28);
  // 200 dpi, in pixels a metre.
  file.writeInt32LE(7874, 38);
  file.writeInt32LE(7874, 42);
  for (let grey = 0; grey < GREYS; grey += 1)
    file.writeUInt32LE(grey * 0x010101, HEAD_BYTES + 4 * grey);
  for (let row = 0; row < height; row += 1) {
    const from = (height - 1 - row) * width;
    file.set(pixels.subarray(from, from + width), start + row * stride);
  }
  return file;
}
