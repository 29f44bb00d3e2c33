/**
 * Owns where png, jpeg, webp, gif and bmp write their width and height.
 * It must never trust a length it reads: every step stays inside the bytes it was given.
 */

interface Size {
  readonly width: number;
  readonly height: number;
}

/** Pixel size, or null if the bytes are no image of a known kind or end before the size. */
export function imageSizeOf(bytes: Buffer): Size | null {
  if (bytes.length < 16) return null;
  const head = bytes.toString('latin1', 0, 16);
  if (head.startsWith('\x89PNG\r\n\x1a\n')) return pngSize(bytes);
  if (head.startsWith('\xff\xd8\xff')) return jpegSize(bytes);
  if (head.startsWith('RIFF') && head.slice(8, 12) === 'WEBP') return webpSize(bytes);
  if (/^GIF8[79]a/.test(head)) return little16(bytes, 6);
  return head.startsWith('BM') ? bmpSize(bytes) : null;
}

function pngSize(bytes: Buffer): Size | null {
  if (bytes.length < 24 || bytes.toString('latin1', 12, 16) !== 'IHDR') return null;
  return { width: bytes.readUInt32BE(16), height: bytes.readUInt32BE(20) };
}

/** Walks the segments up to the start of a frame; C4, C8 and CC are in that range but start no frame. */
function jpegSize(bytes: Buffer): Size | null {
  let at = 2;
  while (at + 9 <= bytes.length && bytes[at] === 0xff) {
    const marker = bytes[at + 1] ?? 0;
    const isFrame = marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker);
    if (isFrame) return { width: bytes.readUInt16BE(at + 7), height: bytes.readUInt16BE(at + 5) };
    const isFill = marker === 0xff;
    at += isFill ? 1 : 2 + Math.max(2, bytes.readUInt16BE(at + 2));
  }
  return null;
}

function webpSize(bytes: Buffer): Size | null {
  if (bytes.length < 30) return null;
  switch (bytes.toString('latin1', 12, 16)) {
    case 'VP8X':
      return { width: bytes.readUIntLE(24, 3) + 1, height: bytes.readUIntLE(27, 3) + 1 };
    case 'VP8L':
      return losslessSize(bytes);
    case 'VP8 ':
      return lossySize(bytes);
    default:
      return null;
  }
}

/** 14 bits each, after a signature byte. */
function losslessSize(bytes: Buffer): Size | null {
  if (bytes[20] !== 0x2f) return null;
  const bits = bytes.readUInt32LE(21);
  return { width: (bits & 0x3fff) + 1, height: ((bits >>> 14) & 0x3fff) + 1 };
}

/** Only a key frame says its size; the upper two bits of each number are a scale for display. */
function lossySize(bytes: Buffer): Size | null {
  if (bytes.readUIntBE(23, 3) !== 0x9d_01_2a) return null;
  return { width: bytes.readUInt16LE(26) & 0x3fff, height: bytes.readUInt16LE(28) & 0x3fff };
}

function little16(bytes: Buffer, at: number): Size {
  return { width: bytes.readUInt16LE(at), height: bytes.readUInt16LE(at + 2) };
}

/** A negative height says that rows run from the top. */
function bmpSize(bytes: Buffer): Size | null {
  if (bytes.length < 26) return null;
  const isOld = bytes.readUInt32LE(14) === 12;
  if (isOld) return little16(bytes, 18);
  return { width: bytes.readInt32LE(18), height: Math.abs(bytes.readInt32LE(22)) };
}

/**
 * Whether the bytes of an image reach its end: what was cut on its way has none.
 * @param tail the last bytes of it. @param length all of its bytes.
 */
export function imageIsWhole(head: Buffer, tail: Buffer, length: number): boolean {
  const magic = head.toString('latin1', 0, 4);
  if (magic === '\x89PNG') return tail.includes('IEND', 0, 'latin1');
  if (magic.startsWith('\xff\xd8')) return tail.includes(Buffer.from([0xff, 0xd9]));
  if (magic === 'RIFF') return head.readUInt32LE(4) + 8 <= length;
  if (magic === 'GIF8') return tail.includes(0x3b);
  return head.readUInt32LE(2) <= length;
}
