/**
 * Owns the damage of one stored record: a bit of its value is another, as a failing disk has it.
 * It must never touch a folder that a service has open.
 */
import { LmdbStore } from '../../src/store/lmdb-store.js';
import type { StoreKey } from '../../src/store/store.js';

/** @param name of the file: `records` or `keys`. @returns the damaged record's key. */
export async function changeByte(
  dataDir: string,
  prefix: StoreKey,
  name = 'records',
): Promise<StoreKey> {
  const store = LmdbStore.open({ folder: dataDir, name, exclusive: name === 'records' });
  const [entry] = store.page({ prefix, limit: 1 });
  const key = store.get(prefix) === null ? (entry?.key ?? prefix) : prefix;
  const value = Buffer.from(store.get(key)?.value ?? []);
  const at = value.length - 20;
  value.writeUInt8(value.readUInt8(at) ^ 1, at);
  await store.commit([{ type: 'put', key, value }]);
  await store.flushed();
  await store.close();
  return key;
}
