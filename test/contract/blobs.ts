/**
 * Owns the suite of the contract of blobs, run by every implementation.
 * It must never look behind the contract: at a disk or into a bucket.
 */
import { randomBytes } from 'node:crypto';
import { existsSync, writeFileSync } from 'node:fs';
import type { Test } from 'tap';
import { crc32 } from '../../src/crc32.js';
import { limits } from '../../src/limits/index.js';
import { type Blobs, DamagedBlob } from '../../src/store/blobs.js';
import { ContentSample } from '../../src/store/content-sample.js';

const never = new AbortController().signal;

export function blobsContract(t: Test, open: (t: Test) => Promise<Blobs>): void {
  t.test('what was kept is there, with its size, sample and checksum', async (t) => {
    const blobs = await open(t);
    // Short ones, and such as are put in parts: one over, just one, one under.
    const part = limits.objectPartBytes;
    for (const size of [1, limits.uploadWriteBytes + 1, part - 1, part, 2 * part + 17]) {
      const bytes = randomBytes(size);
      const kept = await put(blobs, `s${size}.source`, bytes);
      const sample = new ContentSample();
      sample.update(bytes);
      t.same(kept, { bytes: size, sample: sample.digest(), crc32: crc32(bytes) });
      t.ok((await bytesOf(blobs, `s${size}.source`)).equals(bytes), `${size} bytes`);
      await blobs.remove(`s${size}.source`);
      await blobs.remove(`s${size}.source`);
    }
    t.same(await namesOf(blobs), []);
  });

  t.test('what was not kept is not there', async (t) => {
    const blobs = await open(t);
    for (const size of [4, 2 * limits.objectPartBytes]) {
      const writer = await blobs.create('a.source');
      await writer.write(randomBytes(size));
      t.equal(writer.bytes, size);
      await writer.discard();
      t.same(await namesOf(blobs), []);
    }
    const kept = await blobs.create('b.source');
    await kept.write(Buffer.from('b'));
    await kept.keep('b.source');
    await kept.discard();
    t.same(await namesOf(blobs), ['b.source'], 'a kept one is not discarded');
  });

  t.test('a text that was written on the disk is adopted', async (t) => {
    const blobs = await open(t);
    writeFileSync(blobs.partPath('a.text'), 'the text');
    await blobs.adopt('a.text');
    t.notOk(existsSync(blobs.partPath('a.text')));
    t.equal(String(await bytesOf(blobs, 'a.text')), 'the text');
    writeFileSync(blobs.partPath('b.text'), 'not adopted');
    await blobs.remove('b.text');
    t.notOk(existsSync(blobs.partPath('b.text')));
  });

  t.test('two names share bytes, and each is removed separately', async (t) => {
    const blobs = await open(t);
    await put(blobs, 'a.text', Buffer.from('text'));
    t.equal(await blobs.share('a.text', 'b.text'), true);
    t.equal(await blobs.share('gone.text', 'c.text'), false);
    await blobs.remove('a.text');
    t.same(await namesOf(blobs), ['b.text']);
    const handle = await blobs.read('b.text');
    await blobs.remove('b.text');
    t.equal((await handle.readFile()).toString(), 'text', 'who reads it reads on');
    await handle.close();
    t.same(await namesOf(blobs), []);
  });

  t.test('bytes are compared, not hashes', async (t) => {
    const blobs = await open(t);
    const bytes = randomBytes(300_000);
    const other = Buffer.from(bytes);
    other.writeUInt8(other.readUInt8(150_000) ^ 1, 150_000);
    await put(blobs, 'a', bytes);
    await put(blobs, 'b', bytes);
    await put(blobs, 'c', other);
    t.equal(await blobs.same('a', 'b', never), true);
    t.equal(await blobs.same('a', 'c', never), false);
    t.equal(await blobs.same('a', 'gone', never), false);
    const reason = new Error('not wanted');
    await t.rejects(blobs.same('a', 'b', AbortSignal.abort(reason)), reason);
  });

  t.test('other bytes than were written are never given', async (t) => {
    const blobs = await open(t);
    const { bytes, crc32: sum, sample } = await put(blobs, 'a', randomBytes(300_000));
    const known = { bytes, crc32: sum };
    await (await blobs.readWhole('a', known)).close();
    await (await blobs.readWhole('a', { bytes })).close();
    t.equal(await blobs.state('a', known), 'whole');
    for (const wrong of [{ bytes, crc32: sum ^ 1 }, { bytes: bytes - 1 }, { bytes: bytes + 1 }]) {
      await t.rejects(blobs.readWhole('a', wrong), DamagedBlob);
      t.equal(await blobs.state('a', wrong), 'damaged');
    }
    t.equal(await blobs.state('a', { bytes, sample }), 'whole', 'from before there were checksums');
    t.equal(await blobs.state('a', { bytes, sample: 'other' }), 'damaged');
    await t.rejects(blobs.readWhole('gone', known), { code: 'ENOENT' });
    await t.rejects(blobs.read('gone'), { code: 'ENOENT' });
    t.equal(await blobs.state('gone', known), 'missing');
  });

  t.test('a name that is none is refused', async (t) => {
    const blobs = await open(t);
    for (const name of ['', '..', '../a', 'a/b', 'A', 'a\0b', 'a.b.c', 'é']) {
      const label = JSON.stringify(name);
      t.throws(() => blobs.partPath(name), /cannot be called/, label);
      await t.rejects(blobs.create(name), /cannot be called/, label);
      await t.rejects(blobs.read(name), /cannot be called/, label);
      await t.rejects(blobs.remove(name), /cannot be called/, label);
    }
  });
}

async function put(blobs: Blobs, name: string, bytes: Buffer) {
  const writer = await blobs.create(`${name.split('.')[0]}x`);
  for (let at = 0; at < bytes.length; at += 70_001) {
    await writer.write(bytes.subarray(at, at + 70_001));
  }
  return await writer.keep(name);
}

async function bytesOf(blobs: Blobs, name: string): Promise<Buffer> {
  const handle = await blobs.read(name);
  try {
    return await handle.readFile();
  } finally {
    await handle.close();
  }
}

async function namesOf(blobs: Blobs): Promise<string[]> {
  const names: string[] = [];
  for await (const name of blobs.names()) names.push(name);
  return names.sort();
}
