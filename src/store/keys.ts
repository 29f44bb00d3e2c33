/**
 * Owns the API keys: their form, their records, and who a bearer value belongs to.
 * It must never keep or show a secret: the store holds SHA-256 hashes, and a key is shown once, when it is made.
 *
 * The file of the keys (`LmdbStore.open({ folder, name: 'keys', exclusive: false })`) is apart from the records, so that
 * the command line and the server can both have it open; LMDB lets its writers take turns and its readers see what is
 * committed. Each look-up reads the record from that file, a matter of a microsecond, so a key that another process
 * revoked is refused from the next turn of the event loop on, and a new one is taken as soon.
 */
import { createHash } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import { type Clock, type NewBytes, unixS } from '../clock.js';
import { decodeRecord, encodeRecord } from '../codec.js';
import { limits } from '../limits/index.js';
import type { ApiKeySetting } from '../settings/types.js';
import type { Store, StoreEntry } from './store.js';

/** The first character keeps `.` and `..` out. Case counts: Alice and alice are two owners. */
const OWNER = /^[A-Za-z0-9][A-Za-z0-9._-]*$/;
/** 224 bits; what `shown` gives away leaves 200. Hex has no hyphen: the owner ends at the key's last one. */
const SECRET_BYTES = 28;
const SECRET_SHOWN = 6;
const ID_LENGTH = 20;
const ID = /^ak-[0-9a-f]{20}$/;
const PAGE = 500;

export interface KeyHolder {
  readonly user: string;
  /** `ak-…`; names the key in messages and on the command line. */
  readonly keyId: string;
}

export interface KeyInfo extends KeyHolder {
  readonly createdS: number;
  /** The start of the key, to tell one from another: `sk-alice-3f9a1c…`. */
  readonly shown: string;
}

export interface KeyParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly newBytes: NewBytes;
  /** Keys of any form, known in memory only. */
  readonly settings: readonly ApiKeySetting[];
}

/** What a bearer value was last found to be. */
interface KnownKey {
  readonly hash: string;
  /** Good only while the record has this version; null for a key of the settings, which is always good. */
  readonly version: number | null;
  readonly holder: KeyHolder;
}

export class ApiKeys {
  readonly #parts: KeyParts;
  /** By SHA-256, like the stored ones: comparing hashes tells nothing about a key through time. */
  readonly #settings: ReadonlyMap<string, KeyHolder>;
  /** By the whole bearer value, never a part of it. */
  readonly #known = new Map<string, KnownKey>();

  constructor(parts: KeyParts) {
    this.#parts = parts;
    this.#settings = new Map(parts.settings.map(settingEntry));
  }

  /** Null for an unknown, revoked, empty or overlong value. */
  lookup(bearer: string): KeyHolder | null {
    if (bearer.length === 0 || bearer.length > limits.keyBytesMax) return null;
    const known = this.#known.get(bearer);
    if (known?.version === null) return known.holder;
    const hash = known?.hash ?? sha256(bearer);
    const setting = this.#settings.get(hash);
    if (setting) return this.#remember(bearer, { hash, version: null, holder: setting });
    const record = this.#parts.store.get(['key', hash]);
    if (record && record.version === known?.version) return known.holder;
    this.#known.delete(bearer);
    if (!record) return null;
    const { user, keyId } = decodeRecord<KeyInfo>(record.value);
    return this.#remember(bearer, { hash, version: record.version, holder: { user, keyId } });
  }

  /** @returns the key itself, for the only time. Durable when this resolves. */
  async create(user: string): Promise<KeyInfo & { readonly key: string }> {
    assertOwner(user);
    if ((await this.#count()) >= limits.keysMax) {
      throw new Error(`there are ${limits.keysMax} keys already: revoke some first`);
    }
    const secret = this.#parts.newBytes(SECRET_BYTES).toString('hex');
    const key = `sk-${user}-${secret}`;
    const hash = sha256(key);
    const info: KeyInfo = {
      user,
      keyId: `ak-${hash.slice(0, ID_LENGTH)}`,
      createdS: unixS(this.#parts.clock),
      shown: `sk-${user}-${secret.slice(0, SECRET_SHOWN)}…`,
    };
    const value = encodeRecord(info);
    const put = { type: 'put', key: ['key', hash], value, expected: null } as const;
    if (!(await this.#parts.store.commit([put]))) throw new Error('the new key exists already');
    await this.#parts.store.flushed();
    return { ...info, key };
  }

  /** Stored keys; the oldest first. Keys of the settings are not among them. */
  list(): KeyInfo[] {
    const infos: KeyInfo[] = [];
    let page = this.#page();
    for (let last = page.at(-1); last; last = page.at(-1)) {
      for (const { record } of page) infos.push(decodeRecord<KeyInfo>(record.value));
      page = this.#page(last);
    }
    return infos.sort((a, b) => a.createdS - b.createdS || (a.keyId < b.keyId ? -1 : 1));
  }

  /** The same in no order, and slowly: a service answers others meanwhile. */
  async *walk(): AsyncGenerator<KeyInfo> {
    for await (const page of this.#pages()) {
      for (const { record } of page) yield decodeRecord<KeyInfo>(record.value);
    }
  }

  /** A stored one. */
  find(keyId: string): KeyInfo | null {
    const entry = this.#entry(keyId);
    return entry === null ? null : decodeRecord<KeyInfo>(entry.record.value);
  }

  /** @returns false when there is no such key. Durable when this resolves. */
  async revoke(keyId: string): Promise<boolean> {
    const entry = this.#entry(keyId);
    if (entry === null) return false;
    const { key, record } = entry;
    const removed = await this.#parts.store.commit([
      { type: 'remove', key, expected: record.version },
    ]);
    await this.#parts.store.flushed();
    return removed;
  }

  #entry(keyId: string): StoreEntry | null {
    if (!ID.test(keyId)) return null;
    // An id is the start of the hash: its record is the first at or behind it.
    const start = keyId.slice('ak-'.length);
    const range = {
      prefix: ['key'],
      after: ['key', start],
      before: ['key', `${start}g`],
      limit: 1,
    };
    return this.#parts.store.page(range)[0] ?? null;
  }

  async #count(): Promise<number> {
    let count = 0;
    for await (const page of this.#pages()) count += page.length;
    return count;
  }

  async *#pages(): AsyncGenerator<StoreEntry[]> {
    let page = this.#page();
    for (let last = page.at(-1); last; last = page.at(-1)) {
      yield page;
      await setImmediate();
      page = this.#page(last);
    }
  }

  #remember(bearer: string, known: KnownKey): KeyHolder {
    if (this.#known.size >= limits.keyMemoryMax) {
      const oldest = this.#known.keys().next();
      if (!oldest.done) this.#known.delete(oldest.value);
    }
    this.#known.set(bearer, known);
    return known.holder;
  }

  #page(last?: StoreEntry): StoreEntry[] {
    const after = last ? { after: last.key } : {};
    return this.#parts.store.page({ prefix: ['key'], limit: PAGE, ...after });
  }
}

export function isOwner(text: string): boolean {
  return OWNER.test(text) && text.length <= limits.ownerLengthMax;
}

/** The owner a key names in clear, for routing only: it proves nothing. */
export function keyOwner(key: string): string | null {
  const end = key.lastIndexOf('-');
  if (!key.startsWith('sk-') || end < 'sk-'.length) return null;
  const owner = key.slice('sk-'.length, end);
  return isOwner(owner) ? owner : null;
}

function settingEntry({ user, key }: ApiKeySetting, i: number): [string, KeyHolder] {
  assertOwner(user);
  if (key.length === 0 || key.length > limits.keyBytesMax) {
    throw new Error(
      `the key given by setting for user ${user} has ${key.length} characters: 1 to ${limits.keyBytesMax} are allowed`,
    );
  }
  // By position: an id made of the hash would help to guess a short key.
  return [sha256(key), { user, keyId: `ak-setting-${i + 1}` }];
}

export function assertOwner(user: string): void {
  if (isOwner(user)) return;
  throw new Error(
    `the user name ${JSON.stringify(user)} is not allowed: 1 to ${limits.ownerLengthMax} of A-Z a-z 0-9 . _ -, the first a letter or digit`,
  );
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
