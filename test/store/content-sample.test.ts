/** Owns the proof that contents are told apart: equal ones always, others by their sample or byte by byte. */
import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import t from 'tap';
import { ContentSample, sameContent } from '../../src/store/content-sample.js';
import { temporaryFolder } from '../support/service.js';

const KIB = 1024;

const same = (one: string, other: string, { signal } = new AbortController()) =>
  sameContent(one, other, signal);

function sampleOf(pieces: readonly Buffer[]): string {
  const sample = new ContentSample();
  for (const piece of pieces) sample.update(piece);
  return sample.digest();
}

/** The content with one byte changed. */
function changed(content: Buffer, at: number): Buffer {
  const copy = Buffer.from(content);
  copy[at] = (copy[at] ?? 0) ^ 1;
  return copy;
}

t.test('a sample is the same however the content is cut', async (t) => {
  const content = randomBytes(400 * KIB);
  const whole = sampleOf([content]);
  const cuts = fc.array(fc.nat(content.length), { maxLength: 40 });
  const run = fc.property(cuts, (places) => {
    const ends = [...places, content.length].sort((a, b) => a - b);
    return whole === sampleOf(ends.map((end, i) => content.subarray(ends[i - 1] ?? 0, end)));
  });
  const { failed, seed, counterexample } = fc.check(run, { numRuns: 100 });
  t.notOk(failed, `seed ${seed}`, { counterexample });
  t.equal(
    whole,
    sampleOf(Array.from({ length: 400 }, (_, i) => content.subarray(i * KIB, (i + 1) * KIB))),
  );
});

t.test('it holds all of the beginning, and the beginning of each stretch after it', async (t) => {
  const content = randomBytes(400 * KIB);
  const whole = sampleOf([content]);
  for (const at of [0, 100 * KIB, 128 * KIB - 1, 128 * KIB, 129 * KIB - 1, 192 * KIB, 384 * KIB]) {
    t.not(sampleOf([changed(content, at)]), whole, `${at}`);
  }
  for (const at of [129 * KIB, 192 * KIB - 1, 193 * KIB, 400 * KIB - 1]) {
    t.equal(sampleOf([changed(content, at)]), whole, `${at}`);
  }
  t.not(sampleOf([]), sampleOf([Buffer.alloc(1)]));
});

t.test('the comparison looks at every byte', async (t) => {
  const folder = temporaryFolder(t);
  const write = (name: string, bytes: Buffer) => {
    writeFileSync(join(folder, name), bytes);
    return join(folder, name);
  };
  for (const length of [0, 1, 256 * KIB, 300 * KIB, 512 * KIB]) {
    const content = randomBytes(length);
    const one = write('one', content);
    t.ok(await same(one, write('same', content)), `${length} bytes`);
    t.ok(await same(one, one));
    t.notOk(await same(one, write('longer', Buffer.concat([content, Buffer.alloc(1)]))));
    if (length === 0) continue;
    t.notOk(await same(one, write('last', changed(content, length - 1))));
    t.notOk(await same(one, write('first', changed(content, 0))));
  }
  const there = write('there', Buffer.from('a'));
  t.notOk(await same(there, join(folder, 'gone')), 'what is gone is like nothing');
  t.notOk(await same(join(folder, 'gone'), there));
  await t.rejects(same(there, folder), { code: 'EISDIR' });
  const gone = new AbortController();
  gone.abort(new Error('nobody wants to know'));
  await t.rejects(same(there, there, gone), /nobody wants to know/);
});
