/**
 * Owns the proof of the form of ids: their order, whose they are, and how many letters chance has.
 * It must stay free of stores and sockets.
 */
import t from 'tap';
import { systemRandom } from '../../src/clock.js';
import { cacheCreatedS, cacheIdOf, isCacheId } from '../../src/protocol/cache-id.js';
import { fileCreatedS, isFileId } from '../../src/protocol/file-id.js';
import { createdMsOf, ItemIds } from '../../src/protocol/item-id.js';

const nowMs = Date.UTC(2030, 0, 1);

t.test('ids sort as they were made, a thousand in one millisecond too', async (t) => {
  const ids = new ItemIds(systemRandom);
  const made: string[] = [];
  for (const ms of [nowMs - 1, nowMs, nowMs + 1, nowMs + 1000]) {
    for (let i = 0; i < 1000; i += 1) made.push(ids.next('alice', ms));
  }
  t.strictSame([...made].sort(), made);
  t.equal(new Set(made).size, made.length);
});

t.test('an id tells when it was made, to its owner', async (t) => {
  const id = new ItemIds(systemRandom).next('alice', nowMs);
  t.match(id, /^[a-z0-9]{20}$/);
  t.equal(createdMsOf('alice', id), nowMs);
  t.equal(createdMsOf('bob', id), null);
  t.equal(createdMsOf('alice', `${id.slice(0, -1)}-`), null);
  t.equal(createdMsOf('alice', 'k'.repeat(20)), null, 'a random one says nothing');
  t.equal(fileCreatedS('alice', id), nowMs / 1000);
  t.equal(cacheCreatedS('alice', cacheIdOf(id)), nowMs / 1000);
  t.equal(cacheCreatedS('alice', id), null);
});

t.test('letters of the one length are ids, and nothing else is', async (t) => {
  const id = new ItemIds(systemRandom).next('alice', nowMs);
  for (const good of [id, 'a'.repeat(20)]) {
    t.ok(isFileId(good));
    t.ok(isCacheId(`cache-${good}`));
  }
  for (const bad of ['', 'a'.repeat(21), 'A'.repeat(20), `${id}\n`, `../${id.slice(3)}`]) {
    t.notOk(isFileId(bad), bad);
    t.notOk(isCacheId(`cache-${bad}`), bad);
  }
});
