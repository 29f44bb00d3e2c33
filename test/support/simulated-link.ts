/**
 * Owns the way between one node and the database in a simulation: late, lost on the way there or back, or cut.
 * It must never tell a node that a statement was not sent which may still arrive.
 */
import type { Clock } from '../../src/clock.js';
import type { Random } from '../../src/plugin/test/random-text.js';
import {
  type Answer,
  ConnectionLost,
  type DatabaseDoor,
  type Query,
  type Statement,
} from '../../src/store/postgres-connection.js';
import type { SimulatedPostgres } from './simulated-postgres.js';

/**
 * `late`: the node has given it up, and the database carries it out afterwards. `refused`: it was never sent. The other two lose the
 * statement, or its answer.
 */
export type LinkFate = 'good' | 'late' | 'refused' | 'request lost' | 'answer lost';

export interface SimulatedLinkParts {
  readonly database: SimulatedPostgres;
  /** Of the world, which neither stops nor drifts. */
  readonly clock: Clock;
  readonly random: Random;
  readonly lateMsMax: number;
  /** Of the next statement. */
  fate(): LinkFate;
  /** Runs what reaches the node once it runs; never, if it is gone. */
  deliver(task: () => void): void;
  /** What a process that is gone would send, nobody sends. */
  isGone(): boolean;
}

const WAY_MS_MAX = 20;

export class SimulatedLink implements DatabaseDoor {
  readonly database = 'the simulated database';
  readonly localAddress = null;
  #turn: Promise<unknown> = Promise.resolve();
  #closed = false;

  constructor(readonly parts: SimulatedLinkParts) {}

  run<Result>(act: (query: Query) => Promise<Result>): Promise<Result> {
    const turn = this.#turn.then(() => act((statement, values) => this.#send(statement, values)));
    this.#turn = turn.catch(() => {});
    return turn;
  }

  query<Row>(statement: Statement, values: readonly unknown[] = []): Promise<Answer<Row>> {
    return this.run((query) => query<Row>(statement, values));
  }

  async close(): Promise<void> {
    this.#closed = true;
  }

  #send<Row>(statement: Statement, values: readonly unknown[] = []): Promise<Answer<Row>> {
    if (this.parts.isGone()) return new Promise(() => {});
    const fate = this.#closed ? 'refused' : this.parts.fate();
    return new Promise((resolve, reject) => {
      const fails = () => this.#answer(() => reject(lost(this.database, fate !== 'refused')));
      const carriedOut = () => this.parts.database.carryOut<Row>(statement, values);
      this.#later(WAY_MS_MAX, () => {
        if (fate === 'good') {
          const answer = carriedOut();
          return this.#answer(() => resolve(answer));
        }
        if (fate === 'answer lost') carriedOut();
        if (fate === 'late') this.#later(this.parts.lateMsMax, carriedOut);
        fails();
      });
    });
  }

  #answer(task: () => void): void {
    this.#later(WAY_MS_MAX, () => this.parts.deliver(task));
  }

  #later(msMax: number, task: () => void): void {
    const { clock, random } = this.parts;
    clock.after(1 + random(msMax), task);
  }
}

function lost(database: string, sent: boolean): ConnectionLost {
  return new ConnectionLost(database, sent, new Error('the way is cut'));
}
