/**
 * Owns a process that makes the records of a folder longer: by so many commits as it is told, each time it is told.
 * It must never look at what it wrote.
 */
import { LmdbStore } from '../../src/store/lmdb-store.js';

const [folder = ''] = process.argv.slice(2);
const store = LmdbStore.open({ folder });
let grown = 0;
process.on('message', async (commits: number) => {
  const end = grown + commits;
  for (; grown < end; grown += 1)
    await store.commit([{ type: 'put', key: ['grow', grown], value: Buffer.alloc(400_000) }]);
  process.send?.(grown);
});
process.once('disconnect', () => store.close());
