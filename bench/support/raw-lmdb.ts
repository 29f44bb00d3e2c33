/**
 * Owns the floor of every durable write: the bare library writes one record and waits until it is flushed.
 * It must never do more than that, nor less: a commit without a flush is not on the disk.
 */
import { join } from 'node:path';
import { open } from 'lmdb';
import type { RawWriteTask, RawWritten } from './raw-store.js';

/** About the size of the record of a small cache with its index keys. */
const RECORD_BYTES = 600;

const [, , folder = ''] = process.argv;
const db = open<Buffer, string>({ path: join(folder, 'raw.mdb'), encoding: 'binary' });
const value = Buffer.alloc(RECORD_BYTES, 'x');
let serial = 0;

process.on('message', (task: RawWriteTask) => {
  void write(task).then((written) => process.send?.(written));
});
process.send?.('ready');

async function write({ writes, together }: RawWriteTask): Promise<RawWritten> {
  let left = writes;
  let written = 0;
  const startedMs = performance.now();
  const writers = Array.from({ length: together }, async () => {
    while (left > 0) {
      left -= 1;
      serial += 1;
      await db.put(`record ${serial}`, value);
      await db.flushed;
      written += 1;
    }
  });
  await Promise.all(writers);
  return { ms: performance.now() - startedMs, written };
}
