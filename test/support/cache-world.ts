/**
 * Owns the parts that a set of caches needs in a test, and the restart of its process on the same disk.
 * It must never count tokens or keep prefixes in a way that a test cannot predict.
 */
import { Caches } from '../../src/caches/caches.js';
import { PrefillQueue } from '../../src/caches/prefill-queue.js';
import { PromotedDisk } from '../../src/caches/promoted-disk.js';
import { cacheQuotaMax } from '../../src/caches/quota.js';
import { type NewCache, nearCache, type StoredBase } from '../../src/parsing/parser.js';
import { decodeBody, wireContent } from '../../src/parsing/stored-body.js';
import { parseCacheCreate, parseCacheDerive } from '../../src/protocol/caching.js';
import { conversationDiff } from '../../src/rules/conversation-diff.js';
import { FakePrefiller, type PrefixDisk } from './fake-prefiller.js';
import { MortalStore } from './mortal-store.js';
import { nearParser } from './near-talk.js';
import { SimulatedClock } from './simulated-clock.js';

export interface Life {
  readonly store: MortalStore;
  readonly prefiller: FakePrefiller;
  readonly caches: Caches;
  readonly prefills: PrefillQueue;
  readonly promoted: PromotedDisk;
}

export class CacheWorld {
  readonly clock: SimulatedClock;
  readonly reports: unknown[] = [];
  readonly prefixes: PrefixDisk = { held: new Set(), pinned: new Set() };
  #ids = 0;
  life: Life;

  constructor(
    /** A change takes effect after the next restart. */
    public keepMs = 100_000,
    readonly quotaMax = cacheQuotaMax,
    readonly promotedBytesMax = 0,
    /** Whose process serves this shard, too. */
    readonly beside: CacheWorld | null = null,
  ) {
    this.clock = beside?.clock ?? new SimulatedClock();
    this.life = this.#open(new MortalStore());
  }

  get caches(): Caches {
    return this.life.caches;
  }

  get nowS(): number {
    return Math.floor(this.clock.nowMs() / 1000);
  }

  /** Stops everything at once, as a crash does; the next process opens what is on disk. */
  crash(): void {
    const { store, prefiller } = this.life;
    store.dead = true;
    prefiller.dead = true;
    this.life = this.#open(new MortalStore(store.disk));
  }

  #open(store: MortalStore): Life {
    const { clock, reports, keepMs, quotaMax, promotedBytesMax } = this;
    const { prefills, promoted } = this.beside?.life ?? {
      prefills: new PrefillQueue(),
      promoted: new PromotedDisk(clock, promotedBytesMax),
    };
    const prefiller = new FakePrefiller(clock, this.prefixes);
    const caches = new Caches({
      store,
      clock,
      prefiller,
      keepMs,
      quotaMax,
      prefills,
      promoted,
      families: ['svc-v1'],
      isOpen: () => true,
      newBytes: (length) => this.#newBytes(length),
      report: (fault) => void reports.push(fault),
      differ: async (_owner, one, other) =>
        conversationDiff(decodeBody(one.read()), decodeBody(other.read())),
      sharedTokens: async () => 0,
      countTokens: async (_owner, _family, { near }) =>
        near?.messages.reduce((sum, { content }) => sum + content.length, 0) ?? 0,
    });
    return { store, prefiller, caches, prefills, promoted };
  }

  /** Distinct, repeatable ids; their order is not the order of creation. */
  #newBytes(length: number): Buffer {
    this.#ids += 1;
    const bytes = Buffer.alloc(length);
    for (let i = 0; i < length; i++) bytes[i] = (this.#ids * (2 * i + 37)) % 251;
    bytes.writeUInt32BE(Math.imul(this.#ids, 0x9e3779b1) >>> 0, 0);
    return bytes;
  }
}

export function creationOf(content: string, fields: object = {}): NewCache {
  const messages = [{ role: 'user', content }];
  const creation = parseCacheCreate({ model: 'svc-v1', messages, ...fields });
  return nearCache(nearParser, 'alice', creation, content.length);
}

/** @param base as `Caches.base` finds it. */
export function derivationOf(content: string, base: StoredBase, fields: object = {}): NewCache {
  const value = { base: base.id, messages: [{ role: 'user', content }], ...fields };
  const creation = parseCacheDerive(value, { ...base, ...wireContent(base.read()) });
  return nearCache(nearParser, 'alice', creation, content.length);
}
