/**
 * Data of a newer form is refused before anything is written to it; data of this form and of none is opened.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { open } from 'lmdb';
import t from 'tap';
import { FORMAT_RECORD } from '../../src/store/data-format.js';
import { LmdbStore } from '../../src/store/lmdb-store.js';
import { temporaryFolder } from '../support/service.js';

t.test('a newer form is refused and left as it is', async (t) => {
  const folder = temporaryFolder(t);
  const first = LmdbStore.open({ folder });
  await first.commit([{ type: 'put', key: ['a'], value: Buffer.from('1') }]);
  await first.flushed();
  await first.close();
  const again = LmdbStore.open({ folder });
  await again.close();
  const path = join(folder, 'records.mdb');
  const raw = open<Buffer, Buffer>({
    path,
    noSubdir: true,
    useVersions: true,
    encoding: 'binary',
    keyEncoding: 'binary',
  });
  await raw.put(FORMAT_RECORD, Buffer.from('3'), 1);
  await raw.flushed;
  await raw.close();
  const before = readFileSync(path);
  t.throws(
    () => LmdbStore.open({ folder }),
    /newer version of preface \(data format 3, .*start that version/,
  );
  t.ok(readFileSync(path).equals(before), 'untouched');
});
