/**
 * Owns the proof that a full disk stops what adds something, and nothing that takes something away.
 * It must fill only a small file system of its own; where none can be mounted, `full-disk-writes` stands for it.
 */
import { spawnSync } from 'node:child_process';
import {
  closeSync,
  cpSync,
  mkdirSync,
  openSync,
  rmSync,
  statfsSync,
  statSync,
  truncateSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { limits } from '../../src/limits/index.js';
import { DiskRoom } from '../../src/store/disk-room.js';
import { copyDatabase } from '../../src/store/lmdb-open.js';
import { LmdbStore } from '../../src/store/lmdb-store.js';
import { Reserve } from '../../src/store/reserve.js';
import { readyCache } from '../support/cache-client.js';
import { contentOf, form, purpose, send, upload } from '../support/file-client.js';
import { openService, type TestService, temporaryFolder } from '../support/service.js';

t.setTimeout(240_000);

const SIZE_MIB = 24;
const adminKey = 'the-key-of-the-operator';

/** @returns null where this user may not mount. */
function smallDisk(t: Test): string | null {
  const folder = join(temporaryFolder(t), 'disk');
  mkdirSync(folder);
  const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${SIZE_MIB}m`, 'tmpfs', folder]);
  if (mounted.status !== 0) return null;
  t.teardown(() => spawnSync('umount', ['-l', folder]));
  return folder;
}

const mountable =
  spawnSync('unshare', ['-m', 'mount', '-t', 'tmpfs', 'tmpfs', '/mnt']).status === 0;
const skip = mountable ? false : 'this user may not mount a file system';

function fillDisk(folder: string): void {
  const file = openSync(join(folder, 'filler'), 'a');
  try {
    for (let size = 1 << 20; size >= 1; size = size >> 1) {
      try {
        for (;;) if (writeSync(file, Buffer.alloc(size)) < size) break;
      } catch (cause) {
        if ((cause as NodeJS.ErrnoException).code !== 'ENOSPC') throw cause;
      }
    }
  } finally {
    closeSync(file);
  }
}

async function operator(service: TestService, method: string, path: string): Promise<Response> {
  const url = `${service.url.slice(0, -3)}/admin/v1/users/alice${path}`;
  return await fetch(url, { method, headers: { authorization: `Bearer ${adminKey}` } });
}

t.test('on a full disk', { skip }, async (t) => {
  const dataDir = smallDisk(t);
  if (dataDir === null) throw new Error('mounting worked before');
  const env = { PREFACE_DATA_DIR: dataDir, PREFACE_ADMIN_KEY: adminKey };
  const service = await openService(t, env);
  const made = await operator(service, 'POST', '/keys');
  const { key, id } = (await made.json()) as { key: string; id: string };
  const messages = [{ role: 'system', content: 'words '.repeat(500) }];
  const cache = await readyCache(service, { messages, tags: ['a'] });
  const file = await upload(service, 'words of a file');
  await contentOf(service, file.id);
  t.equal(statSync(join(dataDir, 'reserve')).size, limits.reserveBytes);
  fillDisk(dataDir);

  const calls = (headers = {}) => service.call('GET', '/models', undefined, headers);
  const asKey = { authorization: `Bearer ${key}` };
  await t.test('what adds something is a 503', async (t) => {
    const statuses = [];
    for (let i = 0; i < 40; i += 1) {
      const body = {
        model: 'svc-v1',
        messages: [{ role: 'user', content: `${i} ${'x'.repeat(100_000)}` }],
      };
      const response = await service.call('POST', '/caching', body);
      await response.arrayBuffer();
      statuses.push(response.status);
      if (response.status === 503) break;
    }
    t.equal(statuses.at(-1), 503, statuses.join(' '));
    t.equal((await send(service, form([purpose, ['file', 'x'.repeat(500_000), 'a']]))).status, 503);
  });
  await t.test('suspending, resuming and revoking work', async (t) => {
    t.equal((await operator(service, 'POST', '/suspend')).status, 200);
    t.equal((await calls(asKey)).status, 403);
    t.equal((await operator(service, 'POST', '/resume')).status, 200);
    t.equal((await calls(asKey)).status, 200);
    t.equal((await operator(service, 'DELETE', `/keys/${id}`)).status, 200);
    t.equal((await calls(asKey)).status, 401);
  });
  await t.test('deleting works', async (t) => {
    for (const path of ['/caching/refs/tags/a', `/caching/${cache.id}`, `/files/${file.id}`]) {
      t.equal((await service.call('DELETE', path)).status, 200, path);
    }
    t.equal((await service.call('GET', `/caching/${cache.id}`)).status, 404);
  });
  await service.close();
  fillDisk(dataDir);

  await t.test('a restart works, and the reserve is whole again when there is room', async (t) => {
    const again = await openService(t, env);
    t.equal((await again.call('GET', '/models')).status, 200);
    t.equal((await operator(again, 'POST', '/suspend')).status, 200);
    t.equal((await operator(again, 'POST', '/resume')).status, 200);
    await again.close();
    rmSync(join(dataDir, 'filler'));
    const roomy = await openService(t, env);
    t.equal(statSync(join(dataDir, 'reserve')).size, limits.reserveBytes);
    await upload(roomy, 'there is room');
    await roomy.close();
  });

  await t.test('without a reserve it starts and reads', async (t) => {
    truncateSync(join(dataDir, 'reserve'), 0);
    fillDisk(dataDir);
    const last = await openService(t, env);
    t.equal((await last.call('GET', '/files')).status, 200);
    t.match(last.log.join('\n'), /the disk of the data folder is full/);
    await last.close();
  });
});

/** A data folder as a restored backup is: its records have no free page, so the first write of a start needs a block. */
async function compacted(from: string, to: string): Promise<void> {
  for (const name of ['records.mdb', 'keys.mdb']) {
    await copyDatabase(from, name, join(to, name));
    await LmdbStore.openReadOnly(to, name.slice(0, -'.mdb'.length)).close();
  }
  cpSync(join(from, 'files'), join(to, 'files'), { recursive: true });
}

t.test('on a disk that is full to the last block, without a reserve', { skip }, async (t) => {
  const before = await openService(t, { PREFACE_ADMIN_KEY: adminKey });
  const made = await operator(before, 'POST', '/keys');
  const { id: keyId } = (await made.json()) as { id: string };
  const messages = [{ role: 'system', content: 'The harbour opens at nine.' }];
  const cache = await readyCache(before, { messages });
  const file = await upload(before, 'words of a file');
  await contentOf(before, file.id);
  await before.close();
  const dataDir = smallDisk(t);
  if (dataDir === null) throw new Error('mounting worked before');
  await compacted(before.dataDir, dataDir);
  fillDisk(dataDir);
  const env = { PREFACE_DATA_DIR: dataDir, PREFACE_ADMIN_KEY: adminKey };
  const service = await openService(t, env);

  await t.test('it starts read-only and says so', async (t) => {
    t.match(
      service.log.join('\n'),
      /is full, and no reserve is left: started read-only; make room, then start again/,
    );
    t.equal(statfsSync(dataDir).bavail, 0);
  });
  await t.test('what is there is served', async (t) => {
    for (const path of ['/files', `/caching/${cache.id}`, '/caching', '/models']) {
      t.equal((await service.call('GET', path)).status, 200, path);
    }
    t.equal((await contentOf(service, file.id)).content, 'words of a file');
    t.equal((await operator(service, 'GET', '')).status, 200);
    const chat = { model: 'svc-v1-8k', messages: [{ role: 'user', content: 'words' }] };
    t.equal((await service.call('POST', '/chat/completions', chat)).status, 200);
  });
  await t.test('what writes is a 503 that says why', async (t) => {
    const answers = [
      await service.call('POST', '/caching', { model: 'svc-v1', messages, tags: ['a'] }),
      await service.call('PUT', `/caching/${cache.id}`, { metadata: { a: 'b' } }),
      await service.call('DELETE', `/caching/${cache.id}`),
      await service.call('DELETE', `/files/${file.id}`),
      await send(service, form([purpose, ['file', 'more words', 'a.txt']])),
      await operator(service, 'POST', '/suspend'),
      await operator(service, 'DELETE', `/keys/${keyId}`),
    ];
    for (const [at, answer] of answers.entries()) {
      const said = await answer.text();
      t.equal(answer.status, 503, `${at}: ${said}`);
      t.match(said, /the (data folder takes no writes|disk of the data folder is full)/);
      t.ok(Number(answer.headers.get('retry-after')) > 0, `${at} says when to come back`);
    }
  });
  await service.close();

  await t.test('with room again, a start takes writes', async (t) => {
    rmSync(join(dataDir, 'filler'));
    const again = await openService(t, env);
    t.equal((await again.call('DELETE', `/files/${file.id}`)).status, 200);
    t.equal((await operator(again, 'DELETE', `/keys/${keyId}`)).status, 200);
    await readyCache(again, { messages, name: 'new' });
    await again.close();
  });
});

t.test('uploads leave the room that the reserve gave up', async (t) => {
  let whole = true;
  // Of a real disk others take and give back meanwhile.
  const freeBytes = () => 1_000 * 2 ** 20;
  const room = new DiskRoom('of nobody', { isWhole: () => whole }, freeBytes);
  let written = 0;
  const write = () =>
    room.write(4_096, async () => {
      written += 1;
    });
  await write();
  whole = false;
  await t.rejects(write(), /the disk of the data folder is full/);
  whole = true;
  let end = () => {};
  const ended = new Promise<void>((resolve) => {
    end = resolve;
  });
  const running = room.write(freeBytes() - 100 * 2 ** 20, () => ended);
  await t.rejects(
    room.write(200 * 2 ** 20, async () => {}),
    /the disk of the data folder is full/,
    'running writes count',
  );
  end();
  await running;
  await write();
  t.equal(written, 2);
  const own = new DiskRoom(temporaryFolder(t), { isWhole: () => whole });
  await t.rejects(
    own.write(Number.MAX_SAFE_INTEGER, async () => {}),
    /the disk of the data folder is full/,
    'of the disk itself',
  );
});

t.test('the reserve is given up bit by bit, for what takes something away', async (t) => {
  const folder = temporaryFolder(t);
  const reserve = Reserve.of(folder);
  t.equal(reserve.fill(), true);
  t.equal(reserve.bytes, limits.reserveBytes);
  t.equal(statSync(join(folder, 'reserve')).mode & 0o777, 0o600);
  const store = LmdbStore.open({ folder, reserve });
  t.teardown(() => store.close());
  const put = (key: string) => ({ type: 'put', key: [key], value: Buffer.from('x') }) as const;
  await store.commit([put('a')]);
  let steps = 0;
  while (reserve.giveUpSome()) steps += 1;
  t.equal(steps, limits.reserveBytes / limits.reserveStepBytes);
  t.equal(reserve.low, true);
  t.equal(await store.commit([{ type: 'remove', key: ['a'] }]), true);
  t.equal(await store.commit([put('b')]), true, 'there is room: it is whole again');
  t.equal(reserve.bytes, limits.reserveBytes);
  t.equal(reserve.low, false);
});
