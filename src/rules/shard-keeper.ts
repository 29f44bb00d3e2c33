/**
 * Owns the rule by which nodes share the shards: who takes a shard that is free, and who gives one up for a node that has too few.
 * It must never let a shard stay free while a node lives, nor move one between nodes that have shares alike.
 *
 * Each node decides by itself, by what it saw last. Those that saw the same decide alike; where they did not, the lease of a shard
 * lets one of them have it.
 */

/** What a node saw of all. */
export interface ShardView {
  /** This node. */
  readonly self: string;
  /** Nodes that live, with this one. Those that leave are not among them. */
  readonly nodes: readonly string[];
  /** Who holds each shard; null: nobody. */
  readonly holders: readonly (string | null)[];
}

/** The free shards that this node takes. Each goes to the node that then has the fewest. */
export function shardsToTake(view: ShardView): number[] {
  const { self, holders } = view;
  const counts = countsOf(view);
  const taken: number[] = [];
  for (const [shard, holder] of holders.entries()) {
    if (holder !== null) continue;
    const next = poorest(counts);
    counts.set(next, (counts.get(next) ?? 0) + 1);
    if (next === self) taken.push(shard);
  }
  return taken;
}

/** Whether this node gives one up: it alone does so, and only when every shard is held. */
export function givesShard(view: ShardView): boolean {
  const { self, nodes, holders } = view;
  if (nodes.length === 0 || holders.some((holder) => holder === null)) return false;
  const counts = countsOf(view);
  const [few, many] = [poorest(counts), richest(counts)];
  return many === self && (counts.get(many) ?? 0) - (counts.get(few) ?? 0) > 1;
}

/** In the order of their names, so that all nodes find the same one. */
function countsOf({ nodes, holders }: ShardView): Map<string, number> {
  const counts = new Map([...nodes].sort().map((node) => [node, 0]));
  for (const holder of holders) {
    const count = holder === null ? undefined : counts.get(holder);
    if (holder !== null && count !== undefined) counts.set(holder, count + 1);
  }
  return counts;
}

function poorest(counts: ReadonlyMap<string, number>): string {
  return firstBy(counts, (one, other) => one < other);
}

function richest(counts: ReadonlyMap<string, number>): string {
  return firstBy(counts, (one, other) => one > other);
}

function firstBy(
  counts: ReadonlyMap<string, number>,
  isBefore: (one: number, other: number) => boolean,
): string {
  let found: readonly [string, number] | null = null;
  for (const entry of counts) if (found === null || isBefore(entry[1], found[1])) found = entry;
  return found?.[0] ?? '';
}
