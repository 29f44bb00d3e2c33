/**
 * Owns one node of a simulation: a process with counters over a store in PostgreSQL, that is paused, killed and started again.
 * It must never run while it is paused, nor say anything once it is gone.
 */
import { Registry } from '../../src/actors/registry.js';
import type { Clock } from '../../src/clock.js';
import { ApiError } from '../../src/errors.js';
import { limits } from '../../src/limits/index.js';
import type { Random } from '../../src/plugin/test/random-text.js';
import { allShards, nameOf, type Shard, shardOf } from '../../src/rules/shards.js';
import { makeParts, openRecords } from '../../src/store/postgres-part.js';
import { PostgresStore } from '../../src/store/postgres-store.js';
import { ShardKeeper } from '../../src/store/shard-keeper.js';
import {
  type Counter,
  type CounterMessage,
  type CounterSaved,
  counterLogic,
  type Echo,
} from './counter-logic.js';
import { MemoryCopy } from './memory-copy.js';
import { type LinkFate, SimulatedLink } from './simulated-link.js';
import type { SimulatedPostgres } from './simulated-postgres.js';

/** What all nodes have in common. */
export interface World {
  /** Neither stops nor drifts. */
  readonly clock: Clock;
  readonly random: Random;
  readonly database: SimulatedPostgres;
  readonly names: readonly string[];
  /** Of the shards. A record is in that of its name. */
  readonly shardCount: number;
  readonly lateMsMax: number;
  readonly nodes: ReadonlyMap<string, SimulatedNode>;
  /** Of the next statement of a node. */
  fate(node: SimulatedNode): LinkFate;
  /** Whether what is sent from one place to another is lost. */
  isLost(from: string, to: string): boolean;
  /** Before an effect of this addition. */
  echoes(name: string, addition: number): void;
  tookOver(node: SimulatedNode): void;
  /** A node gives up a shard. */
  gave(): void;
  /** It goes on without the records, and may take over again. */
  lost(node: SimulatedNode): void;
}

type Counters = Registry<Counter, CounterSaved, CounterMessage, Counter, Echo>;

/** What one process has of a shard. */
interface Turn {
  readonly shard: Shard;
  store: PostgresStore | null;
  counters: Counters | null;
  /** Of the one that serves. */
  origin: string | null;
  /** Ends it for another node. */
  give: (() => void) | null;
}

/** One process. */
interface Life {
  readonly leaving: AbortController;
  /** By the index of the shard. */
  readonly turns: readonly Turn[];
  /** Where there are several. */
  keeper: ShardKeeper | null;
}

const WAY_MS_MAX = 20;
const START_MS_MAX = 500;

export class SimulatedNode {
  #life: Life | null = null;
  #waiting: (() => void)[] = [];
  #pausedMs: number | null = null;
  /** Both clocks go on while a process is stopped; in a machine that is suspended the monotonic one stands still. */
  #isSuspended = false;
  #stoodStillMs = 0;
  #jumpedMs = 0;

  /** @param rate of its clocks, by that of the world. */
  constructor(
    readonly name: string,
    readonly rate: number,
    readonly world: World,
  ) {}

  /** By its own clocks. @param index of the shard. */
  holds(index: number): boolean {
    return this.#life?.turns[index]?.store?.held === true;
  }

  get isUp(): boolean {
    return this.#life !== null;
  }

  start(): void {
    if (this.#life !== null) return;
    const empty = { store: null, counters: null, origin: null, give: null };
    const turns = allShards(this.world.shardCount).map((shard): Turn => ({ shard, ...empty }));
    const life: Life = { leaving: new AbortController(), turns, keeper: null };
    this.#life = life;
    this.#live(life).catch(() => this.#end(life));
  }

  kill(): void {
    if (this.#life !== null) this.#end(this.#life);
  }

  /** As on SIGTERM. */
  leave(): void {
    const life = this.#life;
    if (life === null || life.leaving.signal.aborted) return;
    life.leaving.abort();
    const closed = async ({ counters, store }: Turn) => {
      await counters?.close();
      await store?.close();
    };
    const left = life.keeper?.leave() ?? Promise.resolve();
    left.then(() => Promise.all(life.turns.map(closed))).finally(() => this.#end(life));
  }

  pause(ms: number, isSuspended: boolean): void {
    const { clock } = this.world;
    if (this.#pausedMs !== null) return;
    this.#pausedMs = clock.monotonicMs();
    this.#isSuspended = isSuspended;
    clock.after(ms, () => this.#resume());
  }

  /** Sets its wall clock. */
  jump(ms: number): void {
    this.#jumpedMs += ms;
  }

  /** Asked over the network, by a client or by a node that forwards. */
  ask(from: string, name: string, message: CounterMessage, isForwarded = false): Promise<Counter> {
    return new Promise((resolve, reject) => {
      const back = (task: () => void) => this.#way(this.name, from, task);
      this.#way(from, this.name, () => {
        const life = this.#life;
        if (life === null) return back(() => reject(unavailable('it is not there')));
        this.#deliver(life, () => {
          this.#answer(life, name, message, isForwarded).then(
            (counter) => back(() => resolve(counter)),
            (cause) => back(() => reject(cause)),
          );
        });
      });
    });
  }

  async #answer(
    life: Life,
    name: string,
    message: CounterMessage,
    isForwarded: boolean,
  ): Promise<Counter> {
    const turn = life.turns[shardOf(name, this.world.shardCount)];
    if (turn === undefined) throw unavailable('there is no such shard');
    const { store, counters, origin } = turn;
    if (life.leaving.signal.aborted) throw unavailable('it is stopping');
    if (counters !== null && store?.held === true) return await counters.ask(name, message);
    const other = origin === null || isForwarded ? undefined : this.world.nodes.get(origin);
    if (other === undefined) throw unavailable('it does not serve');
    return await new Promise((resolve, reject) => {
      other.ask(this.name, name, message, true).then(
        (counter) => this.#deliver(life, () => resolve(counter)),
        (cause) => this.#deliver(life, () => reject(cause)),
      );
    });
  }

  async #live(life: Life): Promise<void> {
    const connection = this.#link(life);
    const { storeId } = await openRecords(connection);
    const { shardCount: shards } = this.world;
    if (shards > 1) await makeParts(connection, { storeId, shards });
    await connection.close();
    const clock = this.#clockOf(life);
    if (shards > 1) {
      const node = `${this.name}:${this.world.random(1_000)}:${this.world.random(2 ** 30)}`;
      const gives = () => this.#give(life);
      const link = this.#link(life);
      life.keeper = new ShardKeeper({ connection: link, node, storeId, shards, clock, gives });
      await life.keeper.start();
    }
    const serve = async (turn: Turn) => {
      // It ends when another node has taken the records. It fails when the node leaves.
      while (!life.leaving.signal.aborted) await this.#turn(life, turn, clock, storeId);
    };
    await Promise.all(life.turns.map(serve));
  }

  /** A turn for a node that has too few. */
  async #give(life: Life): Promise<void> {
    const turn = life.turns.find(({ counters, give }) => counters !== null && give !== null);
    if (turn === undefined) return;
    const { store } = turn;
    this.world.gave();
    turn.give?.();
    while (turn.store === store && this.#life === life && !life.leaving.signal.aborted)
      await new Promise<void>((resolve) => this.#clockOf(life).after(limits.leasePollMs, resolve));
  }

  #link(life: Life): SimulatedLink {
    const { world } = this;
    return new SimulatedLink({
      ...world,
      fate: () => world.fate(this),
      deliver: (task) => this.#deliver(life, task),
      isGone: () => this.#life !== life,
    });
  }

  async #turn(life: Life, turn: Turn, clock: Clock, storeId: string): Promise<void> {
    const { world, name } = this;
    const connection = this.#link(life);
    const mirror = new MemoryCopy();
    const part = nameOf('records', turn.shard);
    const { keeper } = life;
    const release = async () => {};
    const node = keeper === null ? {} : { node: keeper.node };
    const store = new PostgresStore({ part, connection, clock, mirror, release, ...node }, storeId);
    turn.store = store;
    await store.leadWhenFree({
      origin: name,
      leaving: life.leaving.signal,
      ...(keeper === null ? {} : { share: keeper.share(turn.shard.index) }),
      taken() {
        turn.origin = null;
      },
      held({ origin }) {
        turn.origin = origin;
      },
      lost() {},
    });
    const counters = this.#open(store, clock);
    turn.counters = counters;
    world.tookOver(this);
    // What was not done when the last holder went is taken up.
    for (const each of world.names)
      if (shardOf(each, world.shardCount) === turn.shard.index)
        counters.ask(each, { type: 'read' });
    const given = new Promise<'given'>((resolve) => {
      turn.give = () => resolve('given');
    });
    const end = await Promise.race([store.lost, given]);
    if (end !== 'given') world.lost(this);
    [turn.counters, turn.give] = [null, null];
    await counters.close();
    await store.close();
  }

  #open(store: PostgresStore, clock: Clock): Counters {
    return new Registry({
      logic: counterLogic,
      clock,
      store,
      report: () => {},
      runEffect: async ({ addition }, name) => {
        this.world.echoes(name, addition);
        return { type: 'echoed', addition };
      },
    });
  }

  #end(life: Life): void {
    if (this.#life !== life) return;
    this.#life = null;
    this.#waiting = [];
    const { clock, random } = this.world;
    // By its supervisor.
    clock.after(random(START_MS_MAX), () => this.start());
  }

  #resume(): void {
    const { clock } = this.world;
    const tookMs = clock.monotonicMs() - (this.#pausedMs ?? clock.monotonicMs());
    if (this.#isSuspended) this.#stoodStillMs += tookMs;
    this.#pausedMs = null;
    for (const task of this.#waiting.splice(0)) task();
  }

  #deliver(life: Life, task: () => void): void {
    if (this.#life !== life) return;
    if (this.#pausedMs === null) task();
    else this.#waiting.push(() => this.#deliver(life, task));
  }

  #clockOf(life: Life): Clock {
    const { clock } = this.world;
    return {
      nowMs: () => clock.nowMs() + (this.rate - 1) * clock.monotonicMs() + this.#jumpedMs,
      monotonicMs: () => this.rate * (this.#awakeUntilMs() - this.#stoodStillMs),
      after: (delayMs, task) => {
        let isCancelled = false;
        const cancel = clock.after(delayMs / this.rate, () => {
          this.#deliver(life, () => {
            if (!isCancelled) task();
          });
        });
        return () => {
          isCancelled = true;
          cancel();
        };
      },
    };
  }

  #awakeUntilMs(): number {
    const nowMs = this.world.clock.monotonicMs();
    return this.#isSuspended && this.#pausedMs !== null ? this.#pausedMs : nowMs;
  }

  #way(from: string, to: string, task: () => void): void {
    const { clock, random } = this.world;
    if (!this.world.isLost(from, to)) clock.after(1 + random(WAY_MS_MAX), task);
  }
}

function unavailable(error: string): ApiError {
  return new ApiError('unavailable', { error });
}
