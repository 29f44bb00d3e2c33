/**
 * Owns the operator's stored keys: what opens the admin API and the console beside the key of the settings.
 * It must never keep or show a secret after it was made, nor let one pass for the key of a user.
 *
 * They lie beside the API keys, in a file that command line and server have open at the same time: a key that was just
 * made or revoked counts at once.
 */
import { createHash } from 'node:crypto';
import { unixS } from '../clock.js';
import { decodeWhole, encodeRecord } from '../codec.js';
import { limits } from '../limits/index.js';
import type { KeyParts } from './keys.js';
import { scan } from './scan.js';
import type { StoreEntry, StoreKey } from './store.js';

const ALL: StoreKey = ['admin-key'];
/** 224 bits, of which `shown` reveals 24. */
const SECRET_BYTES = 28;
const SECRET_SHOWN = 6;
const ID_LENGTH = 20;

export interface AdminKeyInfo {
  /** `ak-…`, as API keys have it: it names the key on the command line. */
  readonly keyId: string;
  readonly createdS: number;
  /** The start of the key, to tell keys apart: `admin-3f9a1c…`. */
  readonly shown: string;
}

export class AdminKeys {
  readonly #parts: Omit<KeyParts, 'settings'>;

  constructor(parts: Omit<KeyParts, 'settings'>) {
    this.#parts = parts;
  }

  /** Whether there is any. */
  get exist(): boolean {
    return this.#parts.store.page({ prefix: ALL, limit: 1 }).length > 0;
  }

  opens(bearer: string): boolean {
    if (bearer.length === 0 || bearer.length > limits.keyBytesMax) return false;
    // By SHA-256, like API keys: the time of a look-up reveals nothing about a key.
    return this.#parts.store.get([...ALL, sha256(bearer)]) !== null;
  }

  /** @returns the key itself, which is shown this once. Durable when this resolves. */
  async create(): Promise<AdminKeyInfo & { readonly key: string }> {
    const { store, clock, newBytes } = this.#parts;
    if (this.list().length >= limits.adminKeysMax) {
      throw new Error(`there are ${limits.adminKeysMax} admin keys already: revoke some first`);
    }
    const secret = newBytes(SECRET_BYTES).toString('hex');
    const key = `admin-${secret}`;
    const hash = sha256(key);
    const shown = `admin-${secret.slice(0, SECRET_SHOWN)}…`;
    const info: AdminKeyInfo = { keyId: idOf(hash), createdS: unixS(clock), shown };
    await store.commit([{ type: 'put', key: [...ALL, hash], value: encodeRecord(info) }]);
    await store.flushed();
    return { ...info, key };
  }

  /** The oldest first. One whose record is damaged is named, so that it can be revoked. */
  list(): AdminKeyInfo[] {
    const infos = [...scan(this.#parts.store, { prefix: ALL })].map(
      (entry) => decodeWhole<AdminKeyInfo>(entry.record.value) ?? damaged(entry),
    );
    return infos.sort((a, b) => a.createdS - b.createdS || (a.keyId < b.keyId ? -1 : 1));
  }

  /** @returns false when there is no such key. Durable when this resolves. */
  async revoke(keyId: string): Promise<boolean> {
    const { store } = this.#parts;
    const entry = [...scan(store, { prefix: ALL })].find((each) => idOf(hashOf(each)) === keyId);
    if (entry === undefined) return false;
    const expected = entry.record.version;
    const removed = await store.commit([{ type: 'remove', key: entry.key, expected }]);
    await store.flushed();
    return removed;
  }
}

function damaged(entry: StoreEntry): AdminKeyInfo {
  return { keyId: idOf(hashOf(entry)), createdS: 0, shown: '(damaged)' };
}

function hashOf({ key }: StoreEntry): string {
  return String(key.at(-1));
}

function idOf(hash: string): string {
  return `ak-${hash.slice(0, ID_LENGTH)}`;
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
