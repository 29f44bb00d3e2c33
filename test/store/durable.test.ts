/**
 * Owns the proof that a durable write shows whole files only, for their user alone.
 * It must look at the folder itself.
 */
import { existsSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { copyDurably, PART, settled, writeDurably } from '../../src/store/durable.js';

t.test('a text replaces the whole file, and leaves no part', async (t) => {
  const path = join(t.testdir({ 'note.json': 'before' }), 'note.json');
  writeFileSync(path + PART, 'of a process that died, and longer than the text');
  await writeDurably(path, 'after');
  t.equal(readFileSync(path, 'utf8'), 'after');
  t.notOk(existsSync(path + PART));
});

t.test('a copy has the same bytes, for this user alone', async (t) => {
  const folder = t.testdir({ from: 'bytes' });
  await copyDurably(join(folder, 'from'), join(folder, 'to'));
  t.equal(readFileSync(join(folder, 'to'), 'utf8'), 'bytes');
  t.equal(statSync(join(folder, 'to')).mode & 0o777, 0o600);
  await t.rejects(copyDurably(join(folder, 'none'), join(folder, 'other')), { code: 'ENOENT' });
  t.notOk(existsSync(join(folder, 'other')), 'a failed copy has no name');
});

t.test('a link is not copied: what another made names no file of this machine', async (t) => {
  const folder = t.testdir({ secret: 'not ours' });
  symlinkSync(join(folder, 'secret'), join(folder, 'from'));
  await t.rejects(copyDurably(join(folder, 'from'), join(folder, 'to')), /no file of its own/);
  t.notOk(existsSync(join(folder, 'to')));
});

t.test('a link in the place of a part is not given the name', async (t) => {
  const folder = t.testdir({ foreign: 'not ours' });
  symlinkSync(join(folder, 'foreign'), join(folder, 'a.part'));
  await t.rejects(settled(join(folder, 'a.part'), join(folder, 'a')), { code: 'ELOOP' });
  t.notOk(existsSync(join(folder, 'a')));
});
