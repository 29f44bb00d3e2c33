/**
 * Owns the comparison of a service after a crash with the state that it acknowledged before.
 * It must never excuse a difference, except that of the one request that was running.
 */
import assert from 'node:assert/strict';
import type { ShownCache } from './cache-client.js';
import { type CrashClient, type Doubt, type KnownCache, knownOf } from './crash-client.js';
import { until } from './until.js';

const READY_MS_MAX = 60_000;
const CHATS = 2;

type ShownTag = { readonly cache_id: string };

/** Afterwards the client knows the outcome of its unanswered request. */
export async function checkAfterCrash(client: CrashClient, url: string): Promise<void> {
  client.url = url;
  const listed = await list(client);
  for (const known of [...client.known.values()]) await checkKnown(client, known, listed);
  const born = checkNewborn(client, listed);
  await checkDeleted(client);
  await checkTags(client, born);
  client.doubt = null;
  await checkReady(client);
  await checkHits(client);
}

/** All caches of the client, found by its metadata: the index must agree with the records. */
async function list(client: CrashClient): Promise<Map<string, ShownCache>> {
  const query = `limit=100&metadata[client]=${client.options.name}`;
  const { data } = await client.call<{ data: ShownCache[] }>('GET', `/caching?${query}`);
  return new Map(data.map((cache) => [cache.id, cache]));
}

function doubtAbout<Type extends Doubt['type']>(client: CrashClient, type: Type) {
  return client.doubt?.type === type ? (client.doubt as Extract<Doubt, { type: Type }>) : null;
}

async function checkKnown(
  client: CrashClient,
  known: KnownCache,
  listed: ReadonlyMap<string, ShownCache>,
): Promise<void> {
  const { id } = known;
  const cache = await client.find<ShownCache>(`/caching/${id}`);
  assert.deepEqual(cache === null, !listed.has(id), `${id} is listed where it is found`);
  if (cache === null) {
    assert.equal(doubtAbout(client, 'delete')?.id, id, `${id} was acknowledged and is gone`);
    client.known.delete(id);
    client.deleted.add(id);
    return;
  }
  const { revision, expiredAtS, ...fixed } = knownOf(cache);
  const { revision: oldRevision, expiredAtS: oldExpiry, ...expected } = known;
  assert.deepEqual(fixed, expected);
  const update = doubtAbout(client, 'update');
  const mayUpdate = update?.id === id && revision === update.revision;
  assert.ok(revision === oldRevision || mayUpdate, `${id} is of ${revision}, was ${oldRevision}`);
  const mayMove = mayUpdate || doubtAbout(client, 'chat')?.id === id;
  assert.ok(expiredAtS === oldExpiry || mayMove, `${id} ends ${expiredAtS}, was ${oldExpiry}`);
  assert.match(cache.status, /^(pending|ready)$/, `${id}: ${JSON.stringify(cache.error)}`);
  client.known.set(id, knownOf(cache));
}

/** @returns the cache whose creation was never answered, if it is there. */
function checkNewborn(client: CrashClient, listed: ReadonlyMap<string, ShownCache>): string | null {
  const born = [...listed.values()].filter(({ id }) => !client.known.has(id));
  const [cache] = born;
  if (cache === undefined) return null;
  const create = doubtAbout(client, 'create');
  assert.equal(born.length, 1, `nobody asked for ${born.map(({ id }) => id)}`);
  assert.deepEqual(
    [cache.name, cache.messages],
    [create?.name, [{ content: create?.text, role: 'system' }]],
  );
  client.known.set(cache.id, knownOf(cache));
  return cache.id;
}

async function checkDeleted(client: CrashClient): Promise<void> {
  for (const id of [...client.deleted].slice(-5)) {
    assert.equal(await client.find(`/caching/${id}`), null, `${id} was deleted`);
  }
}

async function checkTags(client: CrashClient, born: string | null): Promise<void> {
  const create = doubtAbout(client, 'create');
  const move = doubtAbout(client, 'tag');
  const removal = doubtAbout(client, 'untag');
  const names = new Set([...client.tags.keys(), create?.tag, move?.tag]);
  for (const tag of names) {
    if (tag === null || tag === undefined) continue;
    const old = client.tags.get(tag) ?? null;
    const now = (await client.find<ShownTag>(`/caching/refs/tags/${tag}`))?.cache_id ?? null;
    // Either both the cache and its tag exist, or neither.
    const allowed = create?.tag === tag ? [born ?? old] : [old];
    if (move?.tag === tag) allowed.push(move.id);
    if (removal?.tag === tag) allowed.push(null);
    assert.ok(allowed.includes(now), `${tag} points to ${now}, may be ${allowed}`);
    if (now === null) client.tags.delete(tag);
    else client.tags.set(tag, now);
  }
}

async function checkReady(client: CrashClient): Promise<void> {
  for (const { id } of client.known.values()) {
    const ready = async () => {
      const { status, error } = await client.call<ShownCache>('GET', `/caching/${id}`);
      if (status !== 'ready') assert.equal(status, 'pending', `${id}: ${JSON.stringify(error)}`);
      return status === 'ready';
    };
    await until(ready, READY_MS_MAX, `${id} is ready`);
  }
}

/** A chat saves as many tokens as before, and its answer is that of any other cache of the same text. */
async function checkHits(client: CrashClient): Promise<void> {
  const { random } = client.options;
  const caches = [...client.known.values()];
  const asked = new Set<string>();
  for (let i = 0; i < Math.min(CHATS, caches.length); i++) {
    const known = caches[random(caches.length)] as KnownCache;
    const { response, answer } = await client.ask(known);
    const told = (name: string) => response.headers.get(`svc-context-cache-${name}`);
    assert.equal(told('status'), 'hit', `${told('miss-reason')}`);
    assert.equal(told('id'), known.id);
    const saved = Number(told('token-saved'));
    // A second chat may reuse more of the first one than the cache.
    assert.ok(asked.has(known.text) ? saved >= known.tokens : saved === known.tokens, `${saved}`);
    assert.equal(answer.usage.cached_tokens, saved);
    asked.add(known.text);
    const text = answer.choices[0]?.message.content ?? '';
    const before = client.answers.get(known.text) ?? text;
    assert.equal(text, before, 'a restart changes no answer');
    client.answers.set(known.text, text);
  }
}
