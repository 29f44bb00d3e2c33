/**
 * Owns the proof of the checksum: a known value, the same by both ways, and piece by piece as at once.
 * It must never depend on a Node that has one of its own.
 */
import { randomBytes } from 'node:crypto';
import t from 'tap';
import { crc32, crc32ByTable } from '../src/crc32.js';

t.test('the check value of CRC-32, in one piece and in many', async (t) => {
  const bytes = Buffer.from('123456789');
  for (const sum of [crc32, crc32ByTable]) {
    t.equal(sum(bytes), 0xcbf43926);
    t.equal(sum(bytes.subarray(4), sum(bytes.subarray(0, 4))), 0xcbf43926);
    t.equal(sum(Buffer.alloc(0)), 0);
  }
  const long = randomBytes(70_001);
  t.equal(crc32(long), crc32ByTable(long));
});

t.test('no changed byte escapes', async (t) => {
  const bytes = randomBytes(300);
  const before = crc32(bytes);
  for (const at of bytes.keys()) {
    const changed = Buffer.from(bytes);
    changed.writeUInt8(changed.readUInt8(at) ^ (1 << (at % 8)), at);
    t.not(crc32(changed), before);
  }
});
