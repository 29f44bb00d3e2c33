/**
 * Owns the shards: shares of the owners, each with records, a lease and actors of its own, so that several nodes serve at once.
 * It must never part an account from its persons, who share its rates, nor send an owner anywhere else than before.
 */
import { createHash } from 'node:crypto';
import { accountOf } from './account-policy.js';

export interface Shard {
  /** From 0. */
  readonly index: number;
  /** How many there are. */
  readonly count: number;
}

/** That of all owners: in a data folder, and in a database that one node serves. */
export const onlyShard: Shard = { index: 0, count: 1 };

export function allShards(count: number): Shard[] {
  return Array.from({ length: count }, (_, index) => ({ index, count }));
}

/** Records lie by it: another hash would lose them. */
export function shardOf(owner: string, count: number): number {
  const hash = createHash('sha256').update(accountOf(owner)).digest();
  return hash.readUInt32BE() % count;
}

/** Where its objects lie in a bucket. Those of the only shard lie in the open. */
export function placeOf({ index, count }: Shard): string {
  return count === 1 ? '' : `shard-${index}/`;
}

/** How something of a shard is called. That of the only shard has the plain name. */
export function nameOf<Name extends string>(
  name: Name,
  { index, count }: Shard,
): Name | `${Name}-${number}` {
  return count === 1 ? name : `${name}-${index}`;
}
