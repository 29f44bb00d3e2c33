/**
 * Owns the way in which Excel 95 hides a workbook, and Excel 97 to 2003 on demand: each byte by one of sixteen.
 * It must never say that a password fits unless both of its checks do.
 */

const CHECK_START = 0xce4b;
const CRC_START = 0xffff;
const CRC_POLYNOMIAL = 0x1021;
/** What a password that is too short ends with. */
const FILL = Buffer.from('bbffffbaffffb98000be0f00bf0f00', 'hex');
const LENGTH_MAX = 15;
const ARRAY_BYTES = 16;

/** The plain byte. @param at of the byte in the stream. @param length of the body of its record. */
export type Reveal = (byte: number, at: number, length: number) => number;

/** @param fields a key and a check. @param password bytes, one a character. Null where it is another one. */
export function xorReveal(fields: Buffer, password: Buffer): Reveal | null {
  if (fields.length < 4 || password.length < 1 || password.length > LENGTH_MAX) return null;
  const key = crcOf(password);
  if (fields.readUInt16LE(0) !== key || fields.readUInt16LE(2) !== checkOf(password)) return null;
  const array = arrayOf(password, key);
  return (byte, at, length) => turned(byte ^ (array[(at + length) % ARRAY_BYTES] ?? 0), 3);
}

function crcOf(password: Buffer): number {
  let crc = CRC_START;
  for (const byte of password) {
    crc ^= (byte & 0x7f) << 8;
    for (let bit = 0; bit < 8; bit += 1) {
      crc = ((crc << 1) ^ ((crc & 0x8000) === 0 ? 0 : CRC_POLYNOMIAL)) & 0xffff;
    }
  }
  return crc;
}

function checkOf(password: Buffer): number {
  const shifted = (check: number) => ((check << 1) & 0x7fff) | ((check >> 14) & 1);
  const mixed = [...password].reduceRight((check, byte) => shifted(check) ^ byte, 0);
  return shifted(mixed) ^ password.length ^ CHECK_START;
}

/** The password and what fills it up, under both bytes of the key in turn. */
function arrayOf(password: Buffer, key: number): Buffer {
  const filled = Buffer.concat([password, FILL]).subarray(0, ARRAY_BYTES);
  const bytes = [key & 0xff, key >> 8];
  return Buffer.from(filled.map((byte, at) => turned(byte ^ (bytes[at % 2] ?? 0), 7)));
}

/** To the left. */
function turned(byte: number, bits: number): number {
  return ((byte << bits) | (byte >> (8 - bits))) & 0xff;
}
