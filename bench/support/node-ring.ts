/**
 * Owns a model of many nodes: owners with their caches on a hash ring, and the load of the busiest node.
 * It must depend on its seed alone, and never stand for a measurement.
 */

export interface RingPlan {
  readonly nodes: number;
  /** Points of each node on the ring. */
  readonly points: number;
  readonly owners: number;
  readonly caches: number;
  /** The most tokens in the caches of one owner. */
  readonly ownerTokensMax: number;
  readonly seed: number;
}

export interface NodeLoad {
  owners: number;
  caches: number;
  tokens: number;
}

export interface Owner {
  /** The owner's position on the ring, 0…1. */
  readonly place: number;
  readonly caches: number;
  readonly tokens: number;
}

/** Half of the caches have fewer tokens; a tenth has more than five times as many. */
const TOKENS_MEDIAN = 1_500;
const TOKENS_SPREAD = 1.25;
const TOKENS_MAX = 131_072;
/** Shape of the distribution of owners' sizes: the largest hundredth has about half of all caches. */
const OWNER_SHAPE = 1.16;

export function ringLoads(plan: RingPlan): NodeLoad[] {
  const random = seeded(plan.seed);
  const owners = newOwners(plan, random);
  return loadsOf(owners, newRing(plan.nodes, plan.points, random), plan.nodes);
}

/** Share of the owners that move when a node is added to the ring. */
export function movedShare(plan: RingPlan): number {
  const random = seeded(plan.seed);
  const owners = newOwners(plan, random);
  const ring = newRing(plan.nodes, plan.points, random);
  const added = newPoints(plan.nodes, plan.points, random);
  const larger = [...ring, ...added].sort((one, other) => one.place - other.place);
  const moved = owners.filter(({ place }) => nodeAt(ring, place) !== nodeAt(larger, place));
  return moved.length / owners.length;
}

interface Point {
  readonly place: number;
  readonly node: number;
}

function newRing(nodes: number, points: number, random: () => number): Point[] {
  return Array.from({ length: nodes }, (_, node) => newPoints(node, points, random))
    .flat()
    .sort((one, other) => one.place - other.place);
}

function newPoints(node: number, points: number, random: () => number): Point[] {
  return Array.from({ length: points }, () => ({ place: random(), node }));
}

/** The next point clockwise. */
function nodeAt(ring: readonly Point[], place: number): number {
  let [low, high] = [0, ring.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((ring[middle]?.place ?? 1) < place) low = middle + 1;
    else high = middle;
  }
  return (ring[low % ring.length] as Point).node;
}

function newOwners(plan: RingPlan, random: () => number): Owner[] {
  const sizes = Array.from({ length: plan.owners }, () => (1 - random()) ** (-1 / OWNER_SHAPE));
  const sum = sizes.reduce((total, size) => total + size, 0);
  return sizes.map((size) => {
    const wanted = Math.round((size / sum) * plan.caches);
    const owner = { place: random(), caches: 0, tokens: 0 };
    while (owner.caches < wanted && owner.tokens < plan.ownerTokensMax) {
      const tokens = Math.min(TOKENS_MAX, cacheTokens(random));
      if (owner.tokens + tokens > plan.ownerTokensMax) break;
      owner.caches += 1;
      owner.tokens += tokens;
    }
    return owner;
  });
}

function cacheTokens(random: () => number): number {
  const normal = Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
  return Math.round(TOKENS_MEDIAN * Math.exp(TOKENS_SPREAD * normal));
}

function loadsOf(owners: readonly Owner[], ring: readonly Point[], nodes: number): NodeLoad[] {
  const loads = Array.from({ length: nodes }, () => ({ owners: 0, caches: 0, tokens: 0 }));
  for (const { place, caches, tokens } of owners) {
    const load = loads[nodeAt(ring, place)] as NodeLoad;
    load.owners += 1;
    load.caches += caches;
    load.tokens += tokens;
  }
  return loads;
}

/** Mulberry32; numbers from 0 to 1. */
function seeded(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
