/**
 * Owns the few connections with which the stores of all shards reach their database: one for each shard would be too many for it.
 * It must never let the statements of one `run` go by two of them.
 */
import { limits } from '../limits/index.js';
import {
  type Answer,
  type DatabaseDoor,
  PostgresConnection,
  type Query,
  type Statement,
} from './postgres-connection.js';

export class PostgresDoors {
  readonly #all: readonly PostgresConnection[];
  /** The last one that was used comes first: one that was never needed is never made. */
  readonly #free: PostgresConnection[];
  readonly #waiting: ((connection: PostgresConnection) => void)[] = [];

  /** @param count of those who share them; they get as many connections, up to `shardDoorsMax`. */
  constructor(url: string, count: number) {
    const length = Math.min(count, limits.shardDoorsMax);
    this.#all = Array.from({ length }, () => new PostgresConnection(url));
    this.#free = [...this.#all].reverse();
  }

  /** Who closes it closes no connection: the others go on. */
  door(): DatabaseDoor {
    const [connection] = this.#all as [PostgresConnection];
    const run = <Result>(act: (query: Query) => Promise<Result>) => this.#run(act);
    return {
      database: connection.database,
      get localAddress() {
        return connection.localAddress;
      },
      run,
      query: <Row>(statement: Statement, values?: readonly unknown[]): Promise<Answer<Row>> =>
        run((query) => query<Row>(statement, values)),
      close: async () => {},
    };
  }

  /** A statement that waits for an answer gets none. */
  async close(): Promise<void> {
    await Promise.all(this.#all.map((connection) => connection.close()));
  }

  /** By the first one that is free: what takes long, or waits for a connection that is gone, keeps no other shard waiting. */
  async #run<Result>(act: (query: Query) => Promise<Result>): Promise<Result> {
    const connection = this.#free.pop() ?? (await this.#nextFree());
    try {
      return await connection.run(act);
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#free.push(connection);
      else next(connection);
    }
  }
  #nextFree(): Promise<PostgresConnection> {
    return new Promise((resolve) => this.#waiting.push(resolve));
  }
}
