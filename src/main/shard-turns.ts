/**
 * Owns the turns of all shards on this node, and its share of them.
 * It must never end one shard for another, nor take a share before this node can serve.
 */
import type { Server } from '../http/server.js';
import { shardOf } from '../rules/shards.js';
import type { ShardKeeper } from '../store/shard-keeper.js';
import type { Turns } from './turns.js';

export interface ShardTurnParts {
  /** By the index of the shard. */
  readonly turns: readonly Turns[];
  /** null: one node has all. */
  readonly keeper: ShardKeeper | null;
  /** Resolves when each shard is served, here or elsewhere. */
  readonly ready: Promise<void>;
  readonly listening: Pick<Server, 'drain' | 'running'>;
  readonly drainMs: number;
}

export class ShardTurns {
  /** Resolves when this process may not go on. */
  readonly lost: Promise<Error>;

  constructor(readonly parts: ShardTurnParts) {
    this.lost = Promise.race(parts.turns.map((turns) => turns.lost));
  }

  /**
   * Resolves when this node serves; where several nodes serve at once, when it shares in it.
   * @param taken is told when it has the records of all. @throws Error that ends the node.
   */
  async begin(taken: () => void): Promise<void> {
    const { turns, keeper, ready } = this.parts;
    if (keeper === null) {
      await Promise.all(turns.map((each) => each.begin(taken)));
      return;
    }
    await keeper.start();
    for (const each of turns) each.goOn();
    const cause = await Promise.race([ready, this.lost]);
    if (cause instanceof Error) throw cause;
  }

  /** Of the shards served here the one with the fewest requests goes to a node that has too few. */
  async give(): Promise<void> {
    const { turns, listening } = this.parts;
    const runs = (index: number) => listening.running(endsIn(index, turns.length));
    const served = [...turns.entries()].filter(([, each]) => each.serves);
    const counted = served.map(([index, each]) => ({ each, count: runs(index) }));
    const [least] = counted.sort((one, other) => one.count - other.count);
    await least?.each.give();
  }

  async close(): Promise<void> {
    const { turns, keeper, listening, drainMs } = this.parts;
    await keeper?.leave();
    await Promise.all(turns.map((each) => each.leave()));
    await listening.drain(drainMs);
    await Promise.all(turns.map((each) => each.close()));
  }
}

/** Whose requests end with a shard. Those that no account is known of are let go on, where it is not the only one. */
export function endsIn(index: number, count: number): (account: string | null) => boolean {
  return (account) => count === 1 || (account !== null && shardOf(account, count) === index);
}
