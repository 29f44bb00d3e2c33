/**
 * Owns the mark by which a bucket knows the records whose files it keeps.
 * It must never give another mark to records that have one.
 */
import type { NewBytes } from '../clock.js';
import { decodeRecord, encodeRecord } from '../codec.js';
import type { Store, StoreKey } from '../store/store.js';

const KEY: StoreKey = ['blob-owner'];
const ID_BYTES = 16;

/** For records in a data folder. Those in a database have its mark, which is that of all shards. */
export function newMark(newBytes: NewBytes): string {
  return Buffer.from(newBytes(ID_BYTES)).toString('hex');
}

/** @param make for records without a mark; null: they stay without. */
export async function storeIdOf(
  store: Store,
  { make }: { readonly make: (() => string) | null },
): Promise<string | null> {
  const present = store.get(KEY);
  if (present !== null) return decodeRecord<string>(present.value);
  if (make === null) return null;
  const id = make();
  const made = await store.commit([
    { type: 'put', key: KEY, value: encodeRecord(id), expected: null },
  ]);
  if (!made) return await storeIdOf(store, { make: null });
  await store.flushed();
  return id;
}

const DISK: StoreKey = ['blobs-on-disk'];

/** Whether the blobs of records that have a mark came back from the bucket. */
export const onDisk = {
  is(store: Store): boolean {
    return store.get(DISK) !== null;
  },

  async set(store: Store, value: boolean): Promise<void> {
    if (onDisk.is(store) === value) return;
    await store.commit([
      value ? { type: 'put', key: DISK, value: encodeRecord(true) } : { type: 'remove', key: DISK },
    ]);
    await store.flushed();
  },
};
