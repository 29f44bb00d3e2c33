/**
 * Owns the random search for a history after which caches or tags are not what a plain model says they are.
 * It must print its seed, and do the same again when `TEST_SEED` gives it one; `TEST_RUNS=10000` is the long run.
 */
import t from 'tap';
import { cacheQuotaMax } from '../../src/caches/quota.js';
import { creationChanges } from '../../src/caches/records.js';
import { decodeRecord } from '../../src/codec.js';
import { ApiError } from '../../src/errors.js';
import { limits } from '../../src/limits/index.js';
import type { NewCache, StoredBase } from '../../src/parsing/parser.js';
import { type Random, seededRandom, testSeed } from '../../src/plugin/test/random-text.js';
import { type CacheExpiry, parseCacheQuery } from '../../src/protocol/caching.js';
import type { CacheRecord } from '../../src/rules/cache-state.js';
import { CacheWorld, creationOf, derivationOf } from '../support/cache-world.js';
import type { Fate } from '../support/mortal-store.js';
import { settled } from '../support/simulated-clock.js';

const RUNS = Number(process.env.TEST_RUNS ?? 300);
const STEPS = 25;
const KEEP_S = 40;
const OWNERS = ['alice', 'bob'] as const;
const TAGS = ['a', 'b', 'c'] as const;

// A busy machine takes ten times as long as a quiet one: of the suite each file has ten minutes.
t.setTimeout(Math.max(590_000, RUNS * 400));

/** `live`: pending, ready, or whatever a prefill that failed makes of it. `refused`: can only end in error. */
type Life = 'live' | 'refused' | 'failed' | 'inactive';

interface Model {
  readonly id: string;
  readonly owner: string;
  /** Of its messages, in their order. */
  readonly contents: readonly string[];
  readonly base: string | null;
  /** Gone as soon as it expires. */
  readonly isPromoted: boolean;
  readonly broken: boolean;
  readonly hash: string;
  readonly createdS: number;
  life: Life;
  isPinned: boolean;
  metadata: string | null;
  expiredAtS: number;
  saidMs: number;
  /** Failures of prefills that were known when its current attempt began. */
  failuresBefore: number;
}

type Tags = Map<string, string>;

/** What was asked of a creation. */
type Made = Pick<Model, 'owner' | 'contents' | 'base' | 'broken' | 'isPinned'> & {
  readonly tags: readonly string[];
  readonly metadata: { readonly m?: string };
  readonly expiry: CacheExpiry;
};

class History {
  readonly world = new CacheWorld(KEEP_S * 1000, cacheQuotaMax, Number.MAX_SAFE_INTEGER);
  readonly broken: string[] = [];
  readonly log: string[] = [];
  readonly #models = new Map<string, Model>();
  readonly #tags = new Map<string, Tags>(OWNERS.map((owner) => [owner, new Map()]));
  #calm = false;

  constructor(readonly random: Random) {
    this.#begin();
  }

  async run(): Promise<void> {
    for (let i = 0; i < STEPS && this.broken.length === 0; i++) {
      await this.#step();
      await this.#check();
    }
    this.#crash('before the rest');
    // Ends in the middle of a second: nothing expires between the last look and the end.
    const { clock } = this.world;
    await clock.advance(3 * limits.storeRetryMs + ((1_500 - (clock.nowMs() % 1_000)) % 1_000));
    await this.#check();
    await clock.advance(200);
    await this.#check();
    await this.#checkRest();
    await this.world.caches.close();
  }

  /** A process begins. */
  #begin(): void {
    const { store, prefiller, caches } = this.world.life;
    store.nextFate = () => this.#fate();
    prefiller.nextMs = () => (this.#calm ? 10 : this.random(3_000));
    prefiller.fails = () => !this.#calm && this.random(6) === 0;
    void caches.start();
  }

  #fate(): Fate {
    if (this.#calm || this.random(12) > 0) return 'good';
    return (['die before', 'die after', 'lost', 'unsure'] as const)[this.random(4)] ?? 'good';
  }

  async #step(): Promise<void> {
    this.#calm = false;
    const choice = this.random(20);
    if (choice < 4) await this.#create();
    else if (choice < 5) await (this.random(2) === 0 ? this.#derive() : this.#promote());
    else if (choice < 7) await this.#update();
    else if (choice < 9) await this.#reset();
    else if (choice < 11) await this.#delete();
    else if (choice < 13) await this.#bind();
    else if (choice < 14) await this.#unbind();
    else if (choice < 17) await this.world.clock.advance(this.random(4_000));
    else if (choice < 19) this.#jump();
    else this.#crash('by chance');
    await settled();
    // From here on nothing fails or dies, so that a look at everything has an end.
    this.#calm = true;
    if (this.world.life.store.dead) this.#crash('at a write');
  }

  /** Expiry that was not looked at yet is undone by a clock that is set back: so jumps back are told at once. */
  #jump(): void {
    const seconds = this.random(4) === 0 ? -this.random(20) : this.random(30);
    this.log.push(`jump ${seconds}`);
    this.world.clock.jump(seconds * 1000);
  }

  #crash(why: string): void {
    this.log.push(`crash ${why}`);
    this.#failed.push(...this.world.life.prefiller.failed.splice(0));
    this.world.crash();
    this.#begin();
  }

  /** @returns null when the process died or the disk refused: then only the disk knows what happened. */
  async #try<Result>(name: string, act: () => Promise<Result>): Promise<Result | null> {
    const { store } = this.world.life;
    let outcome: { result: Result } | { error: unknown } | null = null;
    act().then(
      (result) => {
        outcome = { result };
      },
      (error: unknown) => {
        outcome = { error };
      },
    );
    for (let turn = 0; turn < 50 && outcome === null && !store.dead; turn++) await settled();
    const known = outcome as { result: Result } | { error: unknown } | null;
    this.log.push(`${name}: ${known === null ? 'dead' : 'result' in known ? 'ok' : known.error}`);
    if (known === null) {
      if (!store.dead) this.broken.push(`${name} never ended`);
      return null;
    }
    if ('result' in known) return known.result;
    const doubtful = known.error instanceof ApiError && known.error.status >= 500;
    if (!doubtful) this.broken.push(`${name} was refused: ${known.error}`);
    return null;
  }

  /** A write after which nobody knows: what the disk holds is what happened, if it is one of the two. */
  #stored(id: string): CacheRecord | null {
    const record = this.world.life.store.disk.get(['cache', id]);
    return record ? decodeRecord<CacheRecord>(record.value) : null;
  }

  async #create(): Promise<void> {
    const owner = this.#pick(OWNERS);
    const content = `text ${this.random(3)}`;
    const broken = this.random(8) === 0;
    const tags = this.random(3) === 0 ? [...new Set([this.#pick(TAGS), this.#pick(TAGS)])] : [];
    const metadata = this.random(2) === 0 ? { m: String(this.random(2)) } : {};
    const { wire, expiry } = this.#expiry();
    const isPinned = this.random(4) === 0;
    const fields = { ...wire, tags, metadata, ...(isPinned ? { pin: true } : {}) };
    const creation = creationOf(content, fields);
    const fault = { type: 'invalid_request_error', message: 'broken' };
    const given = broken ? { ...creation, fault } : creation;
    await this.#made(
      { owner, contents: [content], base: null, broken, isPinned, tags, metadata, expiry },
      given,
    );
  }

  /** From whatever there is; what it goes on from may end, or be gone, before it is ready. */
  async #derive(): Promise<void> {
    const from = this.#any();
    if (!from) return;
    const { owner, id } = from;
    const base = await this.world.caches.base(owner, id).catch((error: unknown) => error);
    if (base instanceof ApiError) return;
    const content = `more ${this.random(2)}`;
    const { wire, expiry } = this.#expiry();
    const isPinned = this.random(4) === 0;
    const given = derivationOf(content, base as StoredBase, { ...wire, pin: isPinned });
    const made = { contents: [...from.contents, content], base: id, broken: from.broken, isPinned };
    const broken = { type: 'invalid_request_error', message: 'broken' };
    const fault = from.broken ? broken : null;
    await this.#made({ owner, ...made, tags: [], metadata: {}, expiry }, { ...given, fault });
  }

  /** As a chat leaves it behind. */
  async #promote(): Promise<void> {
    const owner = this.#pick(OWNERS);
    const content = `text ${this.random(3)}`;
    const ttlS = 1 + this.random(20);
    const { family, stored, hashFor } = creationOf(content);
    const hash = hashFor(owner);
    const prefix = { family, hash, tokens: content.length, stored, ttlS } as const;
    const nowMs = this.world.clock.nowMs();
    const known = new Set(this.#storedIds());
    const { caches } = this.world;
    await this.#try(`promote ${owner} ${content}`, async () => {
      await (await caches.plan(owner, { ...prefix, implicit: true, promoted: true })).begin();
    });
    const id = this.#storedIds().find((other) => !known.has(other));
    if (id === undefined) return;
    const facts = { contents: [content], base: null, broken: false } as const;
    const made = { ...facts, isPinned: false, metadata: null };
    const times = { createdS: Math.floor(nowMs / 1000), expiredAtS: 0, saidMs: 0 };
    const life = { life: 'live', failuresBefore: 0 } as const;
    const model = { id, owner, hash, ...made, ...times, ...life, isPromoted: true };
    this.#models.set(id, model);
    this.#say(model, { type: 'ttl', ttlS }, nowMs);
  }

  async #made(
    { owner, contents, base, broken, isPinned, tags, metadata, expiry }: Made,
    given: NewCache,
  ): Promise<void> {
    const nowMs = this.world.clock.nowMs();
    const known = new Set(this.#storedIds());
    const found = await this.#try(`create ${owner} ${contents}`, () =>
      this.world.caches.create(owner, given),
    );
    const id = found?.record.id ?? this.#storedIds().find((other) => !known.has(other));
    const record = id === undefined ? null : this.#stored(id);
    if (found && !record) this.broken.push('an acknowledged creation is not on disk');
    if (!id || !record) return;
    this.#models.set(id, {
      id,
      owner,
      contents,
      base,
      isPromoted: false,
      broken,
      hash: record.hash,
      createdS: Math.floor(nowMs / 1000),
      life: broken ? 'refused' : 'live',
      failuresBefore: 0,
      isPinned,
      metadata: metadata.m ?? null,
      expiredAtS: 0,
      saidMs: 0,
    });
    const model = this.#models.get(id);
    if (!model) return;
    this.#say(model, expiry, nowMs);
    // A cache that can only end in an error takes no tag.
    if (model.life !== 'refused') for (const tag of tags) this.#tags.get(owner)?.set(tag, id);
  }

  async #update(): Promise<void> {
    const model = this.#any();
    if (!model) return;
    const asked = this.#expiry().expiry;
    // One that is gone as soon as it expires cannot be told to have expired.
    const isPast = asked.type === 'at' && asked.expiredAtS <= this.world.nowS;
    const expiry = model.isPromoted && isPast ? ({ type: 'default' } as const) : asked;
    const value = this.random(2) === 0 ? String(this.random(3)) : null;
    const metadata = value === null ? null : ([['m', value]] as const);
    const pin = this.#pick([undefined, true, false]);
    const change = { metadata, expiry, ...(pin === undefined ? {} : { pin }) };
    const nowMs = this.world.clock.nowMs();
    const before = this.#stored(model.id)?.generation ?? 0;
    const done = await this.#try(`update ${model.id} ${JSON.stringify(change)}`, () =>
      this.world.caches.update(model.owner, model.id, change),
    );
    if (done !== null && done.record.status !== 'pending')
      this.broken.push(`${model.id} was told as ${done.record.status} by its update`);
    // Nothing else begins a new attempt without being asked.
    const now = this.#stored(model.id);
    if (done === null && now?.generation === before) return;
    if (value !== null) model.metadata = value;
    if (pin !== undefined) model.isPinned = pin;
    this.#say(model, expiry, nowMs);
  }

  async #reset(): Promise<void> {
    const model = this.#any();
    if (!model) return;
    const requestMs = this.world.clock.nowMs() - this.random(3_000);
    const ttlS = 1 + this.random(30);
    const before = this.#stored(model.id);
    const use = { tokensSaved: 0, missReason: null, reset: { requestMs, ttlS } };
    const done = await this.#try(`reset ${model.id}`, () => this.world.caches.use(model.id, use));
    const older = requestMs < model.saidMs && model.saidMs <= this.world.clock.nowMs();
    if (model.life === 'refused' || model.life === 'failed' || older) return;
    const now = this.#stored(model.id);
    const unmoved =
      now?.expirySetMs === before?.expirySetMs && now?.expiredAtS === before?.expiredAtS;
    if (done === null && unmoved) return;
    // A prefill may have failed in the very turns in which this was asked.
    if (now?.status === 'error' && now.expirySetMs !== requestMs) return;
    model.expiredAtS = Math.floor(requestMs / 1000) + ttlS;
    model.saidMs = requestMs;
    if (model.life === 'inactive') this.#restart(model);
  }

  async #delete(): Promise<void> {
    const model = this.#any();
    if (!model) return;
    const { id, owner } = model;
    const done = await this.#try(`delete ${id}`, async () => {
      await this.world.caches.delete(owner, id);
      return true;
    });
    if (done && this.#stored(id)) this.broken.push(`${id} is still there`);
    if (!this.#stored(id)) this.#models.delete(id);
  }

  async #bind(): Promise<void> {
    const model = this.#any();
    // What a prefill makes of a live one just now is not known here.
    if (model?.life !== 'inactive') return;
    const { id, owner } = model;
    const tag = this.#pick(TAGS);
    const done = await this.#try(`bind ${tag} ${id}`, () =>
      this.world.caches.bindTag(owner, tag, id),
    );
    if (done || this.#storedTag(owner, tag) === id) this.#tags.get(owner)?.set(tag, id);
  }

  async #unbind(): Promise<void> {
    const owner = this.#pick(OWNERS);
    const tag = this.#pick(TAGS);
    await this.#try(`unbind ${tag}`, async () => {
      await this.world.caches.tags.remove(owner, tag);
      return true;
    });
    if (this.#storedTag(owner, tag) === null) this.#tags.get(owner)?.delete(tag);
  }

  #storedTag(owner: string, tag: string): string | null {
    const record = this.world.life.store.disk.get(['tag', owner, tag]);
    return record ? decodeRecord<{ cacheId: string }>(record.value).cacheId : null;
  }

  #storedIds(): string[] {
    const entries = this.world.life.store.disk.page({ prefix: ['cache'], limit: 1_000 });
    return entries.map(({ key }) => String(key[1]));
  }

  #expiry(): { wire: object; expiry: CacheExpiry } {
    const choice = this.random(6);
    const ttlS = 1 + this.random(20);
    if (choice === 0) return { wire: {}, expiry: { type: 'default' } };
    if (choice < 4) return { wire: { ttl: ttlS }, expiry: { type: 'ttl', ttlS } };
    const expiredAtS = this.world.nowS + (choice === 4 ? ttlS : -ttlS);
    return { wire: { expired_at: expiredAtS }, expiry: { type: 'at', expiredAtS } };
  }

  #say(model: Model, expiry: CacheExpiry, nowMs: number): void {
    const nowS = Math.floor(nowMs / 1000);
    const ttlS = expiry.type === 'ttl' ? expiry.ttlS : limits.cacheTtlSDefault;
    model.expiredAtS = expiry.type === 'at' ? expiry.expiredAtS : nowS + ttlS;
    model.saidMs = nowMs;
    this.#restart(model);
    if (model.broken || model.expiredAtS <= nowS) model.life = 'refused';
  }

  #restart(model: Model): void {
    model.life = 'live';
    model.failuresBefore = this.#failuresOf(model.hash);
  }

  #failed: string[] = [];
  #failuresOf(hash: string): number {
    return this.#failed.filter((name) => name === hash).length;
  }

  // -------------------------------------------------------------- checks

  async #check(): Promise<void> {
    const { prefiller } = this.world.life;
    this.#failed.push(...prefiller.failed.splice(0));
    this.broken.push(...prefiller.faults);
    for (const model of [...this.#models.values()]) await this.#checkCache(model);
    for (const owner of OWNERS) {
      await this.#checkList(owner);
      await this.#checkTags(owner);
    }
    this.#checkIndexes();
  }

  async #checkCache(model: Model): Promise<void> {
    const { caches, clock, prefixes } = this.world;
    const { id, owner } = model;
    const nowMs = clock.nowMs();
    const found = await caches.get(owner, id).catch((error: unknown) => error);
    const keptMs = model.isPromoted ? 0 : KEEP_S * 1000;
    if (nowMs >= Math.max(model.expiredAtS * 1000, model.saidMs) + keptMs) {
      this.#models.delete(id);
      if (!(found instanceof ApiError && found.row === 'notFound')) this.#wrong(model, 'not gone');
      return;
    }
    if (found instanceof Error) return this.#wrong(model, `${found}`);
    const { record, texts } = found as Awaited<ReturnType<typeof caches.get>>;
    const metadata = record.metadata.find(([key]) => key === 'm')?.[1] ?? null;
    if (record.expiredAtS !== model.expiredAtS) this.#wrong(model, `expires ${record.expiredAtS}`);
    if (metadata !== model.metadata) this.#wrong(model, `has metadata ${metadata}`);
    if (record.createdS !== model.createdS) this.#wrong(model, `was made ${record.createdS}`);
    const messages = model.contents.map((content) => `{"content":"${content}","role":"user"}`);
    if (texts().messages.join() !== messages.join()) this.#wrong(model, 'has other messages');
    if ((record.base ?? null) !== model.base) this.#wrong(model, `goes on from ${record.base}`);
    const isPinned = record.pin === true;
    if (isPinned !== model.isPinned) this.#wrong(model, `is ${isPinned ? '' : 'not '}to be pinned`);
    const over = nowMs >= model.expiredAtS * 1000;
    const { status } = record;
    if (status === 'ready' && !prefixes.held.has(record.hash))
      this.#wrong(model, 'has no snapshot');
    if (!this.#fits(model, status, over)) this.#wrong(model, `is ${status}`);
    const other = await caches.get(owner === 'bob' ? 'alice' : 'bob', id).catch((e: unknown) => e);
    if (!(other instanceof ApiError && other.row === 'otherUser')) this.#wrong(model, 'is shown');
  }

  #fits(model: Model, status: string, over: boolean): boolean {
    switch (model.life) {
      case 'refused':
        return status === 'pending' || status === 'error';
      case 'failed':
        return status === 'error';
      case 'inactive':
        return status === 'inactive';
      case 'live':
        if (status === 'error') model.life = 'failed';
        if (status === 'inactive') model.life = 'inactive';
        if (status === 'error') return this.#failuresOf(model.hash) > model.failuresBefore;
        return status === 'inactive' ? over : !over;
    }
  }

  async #checkList(owner: string): Promise<void> {
    const models = [...this.#models.values()].filter((model) => model.owner === owner);
    const wanted = this.random(3) === 0 ? String(this.random(2)) : null;
    const expected = models
      .filter(({ metadata }) => wanted === null || metadata === wanted)
      .sort((one, other) => one.createdS - other.createdS || (one.id < other.id ? -1 : 1))
      .map(({ id }) => id);
    const order = this.random(2) === 0 ? 'asc' : 'desc';
    if (order === 'desc') expected.reverse();
    const from = this.random(expected.length + 1) - 1;
    const to = from + 1 + this.random(expected.length + 1);
    const limit = 1 + this.random(5);
    const query = [
      ...[`limit=${limit}`, `order=${order}`],
      ...(wanted === null ? [] : [`metadata[m]=${wanted}`]),
      ...(expected[from] ? [`after=${expected[from]}`] : []),
      ...(expected[to] ? [`before=${expected[to]}`] : []),
    ].join('&');
    const found = await this.world.caches.list(owner, parseCacheQuery(query));
    const ids = found.map(({ record }) => record.id).join();
    const right = expected
      .slice(from + 1, to)
      .slice(0, limit)
      .join();
    if (ids !== right) this.broken.push(`list ${query} gave ${ids} for ${right}`);
  }

  async #checkTags(owner: string): Promise<void> {
    const tags = this.#tags.get(owner) ?? new Map();
    const { caches } = this.world;
    const listed = caches.tags.list(owner, parseCacheQuery(''));
    const pairs = listed.map(({ tag, cacheId }) => `${tag}=${cacheId}`).sort();
    const expected = [...tags].map(([tag, id]) => `${tag}=${id}`).sort();
    if (pairs.join() !== expected.join()) {
      this.broken.push(`tags of ${owner} are ${pairs} for ${expected}`);
    }
    for (const [tag, id] of tags) {
      const found = await caches.resolveTag(owner, tag).catch((error: unknown) => error);
      const gone = found instanceof ApiError && found.row === 'notFound';
      if (gone === this.#models.has(id)) this.broken.push(`${tag} leads to ${id}, wrongly`);
    }
  }

  /** Every record has exactly the keys it implies, and no key is without its record. */
  #checkIndexes(): void {
    const { disk } = this.world.life.store;
    const kinds = ['cache', 'cache-body', 'cache-by-owner', 'cache-by-metadata', 'cache-due'];
    kinds.push('cache-pending', 'cache-snapshot', 'cache-promoted', 'cache-pinned');
    const all = kinds.flatMap((kind) =>
      disk.page({ prefix: [kind], limit: 1_000 }).map(({ key }) => JSON.stringify(key)),
    );
    const records = this.#storedIds().flatMap((id) => this.#stored(id) ?? []);
    const expected = records.flatMap((record) =>
      creationChanges(record, Buffer.alloc(0), KEEP_S * 1000).map(({ key }) => JSON.stringify(key)),
    );
    if (all.sort().join() !== expected.sort().join())
      this.broken.push('indexes and records differ');
    if (records.length !== this.#models.size) {
      const extra = records.filter(({ id }) => !this.#models.has(id)).map(({ id }) => id);
      this.broken.push(`there are ${records.length} records, ${this.#models.size} known: ${extra}`);
    }
  }

  /** After a calm time nothing waits, and the bytes that are held are the bytes that are wanted. */
  async #checkRest(): Promise<void> {
    const { disk } = this.world.life.store;
    for (const kind of ['cache-pending', 'cache-forget', 'cache-unpin']) {
      const left = disk.page({ prefix: [kind], limit: 9 });
      if (left.length > 0) this.broken.push(`${kind} is left: ${left.map(({ key }) => key)}`);
    }
    const wanted = new Set<string>();
    const pinned = new Set<string>();
    for (const { id, life, hash, isPinned } of this.#models.values()) {
      const status = this.#stored(id)?.status;
      const rest = { live: 'ready', refused: 'error', failed: 'error', inactive: 'inactive' }[life];
      if (status !== rest) this.broken.push(`${id} rests as ${status}, not ${rest}`);
      if (status === 'ready') wanted.add(hash);
      if (status === 'ready' && isPinned) pinned.add(hash);
      const isTold = this.#stored(id)?.snapshot?.pinned === true;
      if (status === 'ready' && isPinned && !isTold) this.broken.push(`${id} is not told pinned`);
    }
    const held = [...this.world.prefixes.held].sort().join();
    if (held !== [...wanted].sort().join())
      this.broken.push('held snapshots are not the wanted ones');
    const inMemory = [...this.world.prefixes.pinned].sort().join();
    if (inMemory !== [...pinned].sort().join())
      this.broken.push('pinned snapshots are not those that are to be');
  }

  #wrong(model: Model, what: string): void {
    this.broken.push(`${JSON.stringify(model)} at ${this.world.clock.nowMs()} ${what}`);
  }

  #any(): Model | null {
    const models = [...this.#models.values()];
    return models[this.random(models.length)] ?? null;
  }

  #pick<Item>(items: readonly Item[]): Item {
    return items[this.random(items.length)] as Item;
  }
}

t.test(`${RUNS} histories, and after every step the service is what the model says`, async (t) => {
  const seed = testSeed();
  t.comment(`TEST_SEED=${seed}`);
  for (let run = 0; run < RUNS; run++) {
    const history = new History(seededRandom(seed + run));
    await history.run();
    if (history.broken.length === 0) continue;
    t.fail(`TEST_SEED=${seed + run} TEST_RUNS=1`, {
      broken: history.broken.slice(0, 3),
      log: history.log,
    });
    break;
  }
  t.pass(`${RUNS} histories`);
});
