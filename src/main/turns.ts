/**
 * Owns the turns of a node whose records several nodes reach: it stands by, serves, and stands by again when another one took them.
 * It must never serve from records that are lost, nor go on beside what it could not close.
 */
import { ApiError } from '../errors.js';
import type { Route } from '../http/router.js';
import type { Server } from '../http/server.js';
import { limits } from '../limits/index.js';
import type { PostgresStore } from '../store/postgres-store.js';
import type { Context } from './context.js';
import { Opened } from './opened.js';
import type { Standing } from './records.js';

export interface TurnParts {
  readonly context: Context;
  readonly standing: Standing;
  readonly listening: Server;
  /** While another node serves. */
  readonly standBy: readonly Route[];
  /** What works on the records. @param context closes it. */
  openSlot(context: Context, records: PostgresStore): Promise<Route[]>;
}

export class Turns {
  readonly #parts: TurnParts;
  readonly #leaving = new AbortController();
  /** Of the turn: the records, and what works on them. */
  #opened = new Opened();
  /** Settles when the next turn has begun, or cannot. */
  #next: Promise<void> = Promise.resolve();
  #fail: (cause: Error) => void = () => {};
  /** Resolves when this process may not go on. */
  readonly lost = new Promise<Error>((resolve) => {
    this.#fail = resolve;
  });

  constructor(parts: TurnParts) {
    this.#parts = parts;
  }

  /** Resolves when this node serves. @param taken is told when it has the records. @throws Error that ends the node. */
  async begin(taken: () => void): Promise<void> {
    const begun = this.#begin(taken);
    this.#next = begun.catch(() => {});
    await begun;
  }

  async #begin(taken: () => void): Promise<void> {
    const { context, standing, listening, openSlot } = this.#parts;
    const opened = new Opened();
    this.#opened = opened;
    const records = await standing.wait(listening.port, this.#leaving.signal);
    opened.add(records, (part) => part.close());
    taken();
    listening.serve(await openSlot({ ...context, opened }, records));
    standing.serves(records);
    void records.lost.then((cause) => {
      if (!this.#leaving.signal.aborted) this.#next = this.#again(cause);
    });
  }

  /** Ends the turn, which another node goes on with. */
  async close(): Promise<void> {
    const { context, listening } = this.#parts;
    this.#leaving.abort();
    await this.#next;
    await listening.drain(context.config.limits.drainMs);
    await this.#opened.close();
  }

  async #again(cause: Error): Promise<void> {
    const { standing, listening, standBy } = this.#parts;
    try {
      standing.standsBy(`${cause.message}: this node does not serve any more`);
      listening.serve(standBy);
      await this.#inTime(async () => {
        await listening.cut(notHere(), limits.drainStopMsMax);
        await this.#opened.close();
      });
      await this.#begin(() => {});
    } catch (fault) {
      if (!this.#leaving.signal.aborted) this.#fail(fault as Error);
    }
  }

  /** What does not end by itself ends with the process. */
  async #inTime(end: () => Promise<void>): Promise<void> {
    const { clock } = this.#parts.context;
    let cancel = () => {};
    const late = new Promise<never>((_, reject) => {
      cancel = clock.after(limits.turnEndMsMax, () => reject(new Error(LATE)));
    });
    await Promise.race([end(), late]).finally(() => cancel());
  }
}

const LATE = 'what worked on records that another node has now did not end in time';

function notHere(): ApiError {
  const error = 'this node does not serve any more';
  return new ApiError('unavailable', { error }, { retryAfterMs: limits.takeOverRetryMs });
}
