/**
 * Owns which records belong to one user, and how each of them is put into a store and removed from one.
 * It must never move what belongs to one node alone: indexes are rebuilt, and prefixes are prefilled again.
 */
import { batchIdOf, batchIndexChanges, batchKeys } from '../batches/records.js';
import { cacheKeys, creationChanges, idOf, indexChanges } from '../caches/records.js';
import { tagChanges, tagKeys } from '../caches/tag-records.js';
import { decodeRecord } from '../codec.js';
import { blobsOfFile, fileIdOf, fileIndexChanges, fileKeys } from '../files/records.js';
import type { TagRecord } from '../protocol/tags.js';
import {
  conversationIndexChanges,
  conversationKeys,
  conversationParts,
  keptIdOf,
  removals,
  responseIndexChanges,
  responseKeys,
  responseParts,
} from '../responses/records.js';
import type { BatchRecord } from '../rules/batch-state.js';
import type { CacheRecord } from '../rules/cache-state.js';
import type { FileRecord } from '../rules/file-state.js';
import type { ConversationRecord, ResponseRecord } from '../rules/response-state.js';
import { isGrant } from '../settings/accounts.js';
import { type KeyInfo, keyChanges } from '../store/keys.js';
import { scan } from '../store/scan.js';
import type { Store, StoreChange, StoreKey } from '../store/store.js';

export interface Stores {
  readonly records: Store;
  /** Keys and grants. */
  readonly shared: Store;
}

export interface PackedRecord {
  readonly key: StoreKey;
  readonly value: Uint8Array;
}

/** All records but indexes, in the order in which they have to be put: a record comes before those that refer to it. */
export function* packedRecords(stores: Stores, user: string): Generator<PackedRecord> {
  const { records, shared } = stores;
  for (const entry of scan(records, { prefix: fileKeys.owned(user) })) {
    yield* packed(records, fileKeys.record(fileIdOf(entry)));
  }
  for (const entry of scan(records, { prefix: cacheKeys.owned(user) })) {
    yield* packed(records, cacheKeys.body(idOf(entry)));
    yield* packed(records, cacheKeys.record(idOf(entry)));
  }
  for (const { key, record } of scan(records, { prefix: tagKeys.owned(user) }))
    yield { key, value: record.value };
  yield* packedResponses(records, user);
  yield* packedBatches(records, user);
  yield* packed(records, ['account', user]);
  // All keys are looked at: those of an earlier version are in no index.
  for (const { key, record } of scan(shared, { prefix: ['key'] })) {
    if (decodeRecord<KeyInfo>(record.value).user === user) yield { key, value: record.value };
  }
  const [grant] = packed(shared, ['account', user]);
  if (grant !== undefined) yield { ...grant, key: GRANT };
}

function* packedResponses(records: Store, user: string): Generator<PackedRecord> {
  for (const entry of scan(records, { prefix: responseKeys.owned(user) })) {
    const id = keptIdOf(entry);
    yield* packed(records, responseKeys.body(id));
    yield* packed(records, responseKeys.events(id));
    yield* packed(records, responseKeys.record(id));
  }
  for (const entry of scan(records, { prefix: conversationKeys.owned(user) })) {
    const id = keptIdOf(entry);
    for (const { key, record } of scan(records, { prefix: conversationKeys.items(id) }))
      yield { key, value: record.value };
    yield* packed(records, conversationKeys.record(id));
  }
}

function* packedBatches(records: Store, user: string): Generator<PackedRecord> {
  for (const entry of scan(records, { prefix: batchKeys.owned(user) })) {
    const id = batchIdOf(entry);
    for (const { key, record } of scan(records, { prefix: batchKeys.lines(id) }))
      yield { key, value: record.value };
    yield* packed(records, batchKeys.record(id));
  }
}

/** What says nothing of its owner: the record that it belongs to follows it. */
const BODIES: Readonly<Record<string, string>> = {
  'cache-body': 'cache',
  'response-body': 'response',
  'response-events': 'response',
  'conversation-items': 'conversation',
  'batch-line': 'batch',
};

export function isBody({ key }: PackedRecord): boolean {
  return Object.hasOwn(BODIES, String(key[0]));
}

/** Both stores have a record under `['account', user]`: in a bundle, this key stands for the one in the store of keys. */
const GRANT: StoreKey = ['grant'];

function* packed(store: Store, key: StoreKey): Generator<PackedRecord> {
  const record = store.get(key);
  if (record !== null) yield { key, value: record.value };
}

export function* blobsOf(records: Iterable<PackedRecord>): Generator<string> {
  for (const { key, value } of records) {
    if (key[0] !== 'file') continue;
    for (const { name } of blobsOfFile(decodeRecord<FileRecord>(value))) yield name;
  }
}

/**
 * The maker of a bundle may not be this service: nobody reaches another user's records by it.
 * @throws Error for a record that is not this user's, or of no kind that a bundle has.
 */
export async function assertOfUser(
  user: string,
  bundle: AsyncIterable<PackedRecord>,
): Promise<void> {
  const bodies = new Map<string, StoreKey>();
  for await (const record of bundle) {
    const [kind, id] = record.key;
    if (isBody(record)) bodies.set(`${BODIES[String(kind)]} ${id}`, record.key);
    else if (!isOf(user, record)) throw strange(record.key, user);
    else bodies.delete(`${kind} ${id}`);
  }
  const [stray] = bodies.values();
  if (stray !== undefined) throw strange(stray, user);
}

function isOf(user: string, { key, value }: PackedRecord): boolean {
  const isAt = (place: StoreKey) => JSON.stringify(place) === JSON.stringify(key);
  switch (key[0]) {
    case GRANT[0]:
      return isAt(GRANT) && isGrant(decodeRecord<unknown>(value));
    case 'account':
      return isAt(['account', user]);
    case 'key':
      return key.length === 2 && decodeRecord<KeyInfo>(value).user === user;
    case 'tag': {
      const { owner, tag } = decodeRecord<TagRecord>(value);
      return owner === user && isAt(tagKeys.tag(owner, tag));
    }
    case 'cache':
    case 'response':
    case 'conversation':
    case 'batch':
    case 'file': {
      const { owner, id } = decodeRecord<Owned>(value);
      return owner === user && isAt([key[0], id]);
    }
    default:
      return false;
  }
}

type Owned = CacheRecord | FileRecord | ResponseRecord | ConversationRecord | BatchRecord;

function strange(key: StoreKey, user: string): Error {
  const shown = JSON.stringify(key).slice(0, 200);
  return new Error(`the bundle holds ${shown}, which is not of ${user}: nothing was unpacked`);
}

/** A record that exists is left alone: an earlier run put it. @throws Error when it belongs to another user. */
export async function putRecord(
  { records, shared }: Stores,
  user: string,
  { key, value }: PackedRecord,
  keepMs: number,
): Promise<void> {
  // The user may have been on this node before: the grants in the bundle are the current ones.
  if (key[0] === GRANT[0]) {
    return await commit(shared, [{ type: 'put', key: ['account', user], value }]);
  }
  if (key[0] === 'key') return await putKey(shared, key, value);
  if (isBody({ key, value })) return await put(records, key, value);
  const there = records.get(key);
  if (there !== null) return assertOwned(there.value, user, key);
  await commit(records, changesOf(records, key, value, keepMs));
}

function changesOf(
  records: Store,
  key: StoreKey,
  value: Uint8Array,
  keepMs: number,
): readonly StoreChange[] {
  if (key[0] === 'cache') {
    const body = records.get(cacheKeys.body(String(key[1])))?.value;
    if (body === undefined) throw new Error(`the messages of ${key[1]} are missing`);
    return creationChanges(arriving(decodeRecord<CacheRecord>(value)), body, keepMs);
  }
  if (key[0] === 'file') {
    const changes = fileIndexChanges(null, decodeRecord<FileRecord>(value));
    return [{ type: 'put', key, value }, ...changes];
  }
  if (key[0] === 'tag') return tagChanges(decodeRecord<TagRecord>(value));
  return [{ type: 'put', key, value }, ...keptIndexes(key, value)];
}

function keptIndexes(key: StoreKey, value: Uint8Array): readonly StoreChange[] {
  if (key[0] === 'response') return responseIndexChanges(null, decodeRecord<ResponseRecord>(value));
  if (key[0] === 'batch') return batchIndexChanges(null, decodeRecord<BatchRecord>(value));
  if (key[0] !== 'conversation') return [];
  return conversationIndexChanges(null, decodeRecord<ConversationRecord>(value));
}

/** The prefilled prefix stayed on the other node: this node prefills it again. */
function arriving(record: CacheRecord): CacheRecord {
  if (record.status !== 'ready') return record;
  return { ...record, status: 'pending', generation: record.generation + 1 };
}

async function putKey(store: Store, key: StoreKey, value: Uint8Array): Promise<void> {
  if (store.get(key) !== null) return;
  await commit(store, keyChanges(String(key[1]), decodeRecord<KeyInfo>(value), 'put'));
}

async function put(store: Store, key: StoreKey, value: Uint8Array): Promise<void> {
  if (store.get(key) === null) await commit(store, [{ type: 'put', key, value }]);
}

/** @throws Error for an id that belongs to another user. */
function assertOwned(value: Uint8Array, user: string, key: StoreKey): void {
  const { owner } = decodeRecord<{ owner?: string }>(value);
  if (owner === undefined || owner === user) return;
  throw new Error(`${key.join(' ')} is another user's here`);
}

/** Removes the record and its index entries. The bytes of a prefilled prefix are freed at the next start. */
export async function removeRecord(
  { records, shared }: Stores,
  { key, value }: PackedRecord,
  keepMs: number,
): Promise<void> {
  if (key[0] === 'key') {
    return await commit(shared, keyChanges(String(key[1]), decodeRecord<KeyInfo>(value), 'remove'));
  }
  // The suspended account stays: a request that is sent here by mistake is told why it is refused.
  if (key[0] === GRANT[0]) return;
  await commit(records, [{ type: 'remove', key }, ...impliedBy(key, value, keepMs)]);
}

function impliedBy(key: StoreKey, value: Uint8Array, keepMs: number): readonly StoreChange[] {
  if (key[0] === 'cache') return indexChanges(decodeRecord<CacheRecord>(value), null, keepMs);
  if (key[0] === 'file') return fileIndexChanges(decodeRecord<FileRecord>(value), null);
  if (key[0] === 'tag') {
    return removals(tagChanges(decodeRecord<TagRecord>(value)).map(({ key: each }) => each));
  }
  if (key[0] === 'batch') return batchIndexChanges(decodeRecord<BatchRecord>(value), null);
  if (key[0] === 'response') {
    const record = decodeRecord<ResponseRecord>(value);
    return [...removals(responseParts(record)), ...responseIndexChanges(record, null)];
  }
  if (key[0] === 'conversation') {
    const record = decodeRecord<ConversationRecord>(value);
    return [...removals(conversationParts(record)), ...conversationIndexChanges(record, null)];
  }
  return [];
}

async function commit(store: Store, changes: readonly StoreChange[]): Promise<void> {
  if (!(await store.commit(changes)))
    throw new Error('another process changed a record: run this again');
}
