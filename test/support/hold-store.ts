/**
 * Owns a second process with an open store, for tests with two processes.
 * It must never do more than its arguments say: `<folder> hold`, `write`, `fill` or `grow`.
 */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { ApiError } from '../../src/errors.js';
import { LmdbStore } from '../../src/store/lmdb-store.js';

const [, , folder = '', task = ''] = process.argv;
const say = (word: string): void => void process.stdout.write(`${word}\n`);

/** Prints each record once it is flushed, until it is killed. */
async function write(store: LmdbStore): Promise<void> {
  for (let i = 0; ; i++) {
    const value = Buffer.from(`value ${i}`);
    await store.commit([
      { type: 'put', key: ['written', i], value, expected: null },
      { type: 'put', key: ['last'], value },
    ]);
    await store.flushed();
    say(`${i}`);
  }
}

/** Writes until the disk is full, then shows that the store still works. */
async function fill(store: LmdbStore): Promise<void> {
  for (let i = 0; i < 1_000; i++) {
    try {
      const value = Buffer.alloc(100_000, i);
      const puts = [1, 2, 3].map((n) =>
        store.commit([{ type: 'put', key: ['big', i, n], value, expected: null }]),
      );
      await Promise.all(puts);
      await store.flushed();
    } catch (cause) {
      if (!(cause instanceof ApiError)) throw cause;
      say(`${cause.row} ${cause.extra.retryAfterMs} ${cause.message}`);
      break;
    }
  }
  await store.commit([{ type: 'remove', key: ['big', 0, 1] }]);
  await store.commit([{ type: 'put', key: ['small'], value: Buffer.from('after') }]);
  await store.flushed();
  say(`small ${Buffer.from(store.get(['small'])?.value ?? []).toString()}`);
  await store.close();
  say('closed');
}

/** Writes much more than the remaining address space, and reads it. */
async function grow(store: LmdbStore): Promise<void> {
  const status = readFileSync('/proc/self/status', 'latin1');
  const addresses = Number(/VmSize:\s+(\d+)/.exec(status)?.[1]) * 1024 + ROOM_BYTES;
  execFileSync('prlimit', [`--pid=${process.pid}`, `--as=${addresses}:`]);
  // Larger ones are read into memory that is mapped for them alone, which takes addresses of its own.
  const value = Buffer.alloc(60_000, 1);
  for (let i = 0; i < 2_500; i++) await store.commit([{ type: 'put', key: ['big', i], value }]);
  let whole = 0;
  for (let i = 0; i < 2_500; i++) if (store.get(['big', i])?.value.at(-1) === 1) whole += 1;
  say(`grown ${whole}`);
  await store.close();
}

const ROOM_BYTES = 128 * 2 ** 20;

const store = LmdbStore.open({ folder });
say('open');
if (task === 'write') await write(store);
else if (task === 'fill') await fill(store);
else if (task === 'grow') await grow(store);
else setInterval(() => {}, 60_000);
