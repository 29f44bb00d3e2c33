/**
 * Owns the turns of a shard on this node: it stands by, serves, and stands by again when another node has the records.
 * It must never serve from records that are lost, nor go on beside what it could not close.
 */
import type { Route } from '../http/router.js';
import { limits } from '../limits/index.js';
import type { PostgresStore } from '../store/postgres-store.js';
import type { Context } from './context.js';
import { Opened } from './opened.js';
import type { Standing } from './records.js';

export interface TurnParts {
  readonly context: Context;
  readonly standing: Standing;
  /** On which this node listens. */
  readonly port: number;
  /** Requests for the shard come to these; null: to none here. */
  serve(routes: readonly Route[] | null): void;
  /** Ends the requests for the shard that are under way, which may end by themselves for so long. */
  end(drainMs: number): Promise<void>;
  /** What works on the records. @param context closes it. */
  openShard(context: Context, records: PostgresStore): Promise<Route[]>;
}

export class Turns {
  readonly #parts: TurnParts;
  readonly #leaving = new AbortController();
  /** Of the turn: the records, and what works on them. */
  #opened = new Opened();
  /** Settles when the next turn has begun, or cannot. */
  #next: Promise<void> = Promise.resolve();
  #serves = false;
  #fail: (cause: Error) => void = () => {};
  /** Resolves when this process may not go on. */
  readonly lost = new Promise<Error>((resolve) => {
    this.#fail = resolve;
  });

  constructor(parts: TurnParts) {
    this.#parts = parts;
  }

  get serves(): boolean {
    return this.#serves;
  }

  /** Resolves when this node serves. @param taken is told when it has the records. @throws Error that ends the node. */
  async begin(taken: () => void = () => {}): Promise<void> {
    const begun = this.#begin(taken);
    this.#next = begun.catch(() => {});
    await begun;
  }

  /** The same for a node that serves other shards meanwhile. */
  goOn(): void {
    this.#goOn(this.#begin(() => {}));
  }

  async #begin(taken: () => void): Promise<void> {
    const { context, standing, port, serve, openShard } = this.#parts;
    const opened = new Opened();
    this.#opened = opened;
    const records = await standing.wait(port, this.#leaving.signal);
    opened.add(records, (part) => part.close());
    taken();
    serve(await openShard({ ...context, opened }, records));
    standing.serves(records);
    this.#serves = true;
    void records.lost.then((cause) => {
      // Where it is over already, it is being closed.
      if (this.#serves && this.#opened === opened && !this.#leaving.signal.aborted)
        this.#goOn(this.#again(cause));
    });
  }

  /** Another node gets the shard. Resolves when it is free. */
  async give(): Promise<void> {
    const { context, standing, serve, end } = this.#parts;
    if (!this.#serves || this.#leaving.signal.aborted) return;
    this.#serves = false;
    standing.standsBy('another node gets this share');
    serve(null);
    const given = this.#inTime(async () => {
      await end(context.config.limits.drainMs);
      await this.#opened.close();
    });
    this.#goOn(given.then(() => this.#begin(() => {})));
    // What failed ends the process.
    await given.catch(() => {});
  }

  /** It takes no further turn. Resolves when nothing begins any more. */
  async leave(): Promise<void> {
    this.#leaving.abort();
    await this.#next;
  }

  /** Ends the turn, which another node goes on with. */
  async close(): Promise<void> {
    await this.leave();
    await this.#opened.close();
  }

  #goOn(next: Promise<void>): void {
    this.#next = next.catch((fault: unknown) => {
      if (!this.#leaving.signal.aborted) this.#fail(fault as Error);
    });
  }

  async #again(cause: Error): Promise<void> {
    const { standing, serve, end } = this.#parts;
    this.#serves = false;
    standing.standsBy(`${cause.message}: this node does not serve any more`);
    serve(null);
    await this.#inTime(async () => {
      await end(0);
      await this.#opened.close();
    });
    await this.#begin(() => {});
  }

  /** What does not end by itself ends with the process. */
  async #inTime(end: () => Promise<void>): Promise<void> {
    const { clock, config } = this.#parts.context;
    let cancel = () => {};
    const late = new Promise<never>((_, reject) => {
      const ms = config.limits.drainMs + limits.turnEndMsMax;
      cancel = clock.after(ms, () => reject(new Error(LATE)));
    });
    await Promise.race([end(), late]).finally(() => cancel());
  }
}

const LATE = 'what worked on records that another node has now did not end in time';
