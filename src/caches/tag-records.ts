/**
 * Owns how tags lie in the store: the record, and its place among those of its owner.
 * It must never write by itself: it says what a commit has to change.
 */
import { decodeRecord, encodeRecord } from '../codec.js';
import { limits } from '../limits/index.js';
import { isTagName, type TagRecord } from '../protocol/tags.js';
import { scanWithPauses } from '../store/scan.js';
import type { Store, StoreChange, StoreEntry, StoreKey } from '../store/store.js';

const EMPTY = new Uint8Array(0);

export const tagKeys = {
  /** What is kept of the owner beside the tags. */
  owner: (owner: string): StoreKey => ['tags', owner],
  owned: (owner: string): StoreKey => ['tag', owner],
  tag: (owner: string, tag: string): StoreKey => ['tag', owner, tag],
  byTime: (owner: string): StoreKey => ['tag-by-time', owner],
};

/** What follows `byTime`. Numbers sort before texts, so those without an order need none. */
export function placeOf({
  tag,
  createdS,
  order,
}: Pick<TagRecord, 'tag' | 'createdS' | 'order'>): StoreKey {
  return order === undefined ? [createdS, tag] : [createdS, order, tag];
}

export function tagNameOf({ key }: StoreEntry): string {
  return String(key.at(-1));
}

export function findTag(store: Store, owner: string, tag: string): TagRecord | null {
  // What can be no tag may be too long for a key.
  const record = isTagName(tag) ? store.get(tagKeys.tag(owner, tag)) : null;
  return record === null ? null : decodeRecord<TagRecord>(record.value);
}

/** Everything that a tag writes. */
export function tagChanges(record: TagRecord): readonly StoreChange[] {
  const { owner, tag } = record;
  return [
    { type: 'put', key: tagKeys.tag(owner, tag), value: encodeRecord(record) },
    { type: 'put', key: [...tagKeys.byTime(owner), ...placeOf(record)], value: EMPTY },
  ];
}

export async function countTags(store: Store, owner: string): Promise<number> {
  let count = 0;
  const range = { prefix: tagKeys.byTime(owner), pageLength: limits.storePageMax, owner };
  for await (const _entry of scanWithPauses(store, range)) count += 1;
  return count;
}
