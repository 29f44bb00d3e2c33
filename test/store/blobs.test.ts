/**
 * Owns the proof that a blob is on the disk whole or not at all, in a folder of its own.
 * It must look at the disk itself, never ask the blobs what they hold.
 */
import { randomBytes } from 'node:crypto';
import { chmodSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { crc32 } from '../../src/crc32.js';
import { limits } from '../../src/limits/index.js';
import { Blobs } from '../../src/store/blobs.js';
import { ContentSample } from '../../src/store/content-sample.js';
import { temporaryFolder } from '../support/service.js';

async function open(t: Test): Promise<{ blobs: Blobs; folder: string }> {
  const folder = join(temporaryFolder(t), 'files');
  return { blobs: await Blobs.open(folder), folder };
}

t.test('what was kept is there, with its size and its hash, for this user alone', async (t) => {
  const { blobs, folder } = await open(t);
  const bytes = randomBytes(3 * limits.uploadWriteBytes + 17);
  const writer = await blobs.create('abc.source');
  for (let at = 0; at < bytes.length; at += 70_001) {
    await writer.write(bytes.subarray(at, at + 70_001));
  }
  t.same(readdirSync(folder), ['abc.source.part'], 'until it is kept it has another name');
  const sample = new ContentSample();
  sample.update(bytes);
  t.same(await writer.keep('abc.source'), {
    bytes: bytes.length,
    sample: sample.digest(),
    crc32: crc32(bytes),
  });
  t.same(readdirSync(folder), ['abc.source']);
  t.ok(readFileSync(join(folder, 'abc.source')).equals(bytes));
  t.equal(statSync(folder).mode & 0o777, 0o700);
  t.equal(statSync(join(folder, 'abc.source')).mode & 0o777, 0o600);
  await writer.discard();
  t.same(readdirSync(folder), ['abc.source'], 'a kept blob is not discarded');
  await blobs.remove('abc.source');
  await blobs.remove('abc.source');
  t.same(readdirSync(folder), []);
});

t.test('what was not kept leaves nothing, nor does a crash', async (t) => {
  const { blobs, folder } = await open(t);
  const writer = await blobs.create('a');
  await writer.write(Buffer.from('half'));
  await writer.discard();
  t.same(readdirSync(folder), []);
  writeFileSync(join(folder, 'b.source.part'), 'of a process that died');
  writeFileSync(join(folder, 'c.source'), 'whole');
  chmodSync(folder, 0o755);
  await Blobs.open(folder);
  t.same(readdirSync(folder), ['c.source']);
  t.equal(statSync(folder).mode & 0o777, 0o700, 'a folder that was open to others is closed');
});

t.test('a name that is taken, and a name that is none', async (t) => {
  const { blobs } = await open(t);
  const writer = await blobs.create('a');
  await t.rejects(blobs.create('a'), { code: 'EEXIST' });
  await writer.discard();
  for (const name of ['', '..', '../a', 'a/b', 'A', 'a\0b', 'a.b.c', 'é']) {
    t.throws(() => blobs.path(name), /cannot be called/, JSON.stringify(name));
  }
});

t.test('two names share bytes, and each is removed for itself', async (t) => {
  const { blobs, folder } = await open(t);
  writeFileSync(blobs.partPath('a.text'), 'text');
  await blobs.adopt('a.text');
  t.equal(await blobs.share('a.text', 'b.text'), true);
  t.equal(await blobs.share('gone.text', 'c.text'), false);
  await blobs.remove('a.text');
  t.same(readdirSync(folder), ['b.text']);
  const handle = await blobs.read('b.text');
  await blobs.remove('b.text');
  t.equal((await handle.readFile()).toString(), 'text', 'who reads it reads on');
  await handle.close();
  mkdirSync(join(folder, 'x'));
  const names: string[] = [];
  for await (const name of blobs.names()) names.push(name);
  t.same(names, ['x']);
});
