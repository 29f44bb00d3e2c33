/**
 * Owns a process that makes the records of a folder longer, commit by commit, then ends.
 * It must never look at what it wrote.
 */
import { LmdbStore } from '../../src/store/lmdb-store.js';

const [folder = '', commits = ''] = process.argv.slice(2);
const store = LmdbStore.open({ folder });
for (let index = 0; index < Number(commits); index += 1) {
  await store.commit([{ type: 'put', key: ['grow', index], value: Buffer.alloc(400_000) }]);
  if (index === 0) process.send?.('growing');
}
await store.close();
