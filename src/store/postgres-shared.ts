/**
 * Owns a part of the records in PostgreSQL that several processes write: each transaction checks its conditions in the database.
 * It must never miss what another process wrote for longer than its interval, while the database answers.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Clock } from '../clock.js';
import { ApiError } from '../errors.js';
import { limits } from '../limits/index.js';
import { Mirror, type MirrorRow } from './mirror.js';
import {
  ConnectionLost,
  isConflict,
  PostgresConnection,
  type Query,
} from './postgres-connection.js';
import { allRows, openPart, readPart } from './postgres-part.js';
import { mirrorRow, type PartName, type RecordRow, statements } from './postgres-tables.js';
import { type Step, stepsOf } from './steps.js';
import type {
  Store,
  StoreChange,
  StoredRecord,
  StoreEntry,
  StoreKey,
  StoreRange,
} from './store.js';

export interface PostgresSharedOptions {
  readonly url: string;
  readonly part: PartName;
  /** Of the mirror, for this process alone. */
  readonly folder: string;
  readonly clock: Clock;
  /** Whether it follows what other processes write. */
  readonly follows: boolean;
  /** A commit is refused. */
  readonly readOnly?: boolean;
}

const { sharedPollMs, postgresConflictsMax, postgresDoubtMs, leasePollMs } = limits;

export class PostgresShared implements Store {
  readonly #connection: PostgresConnection;
  readonly #mirror: Mirror;
  readonly #options: PostgresSharedOptions;
  /** Of the last change that the mirror has. */
  #version = 0;
  /** Commits and refreshes come one after the other. */
  #turn: Promise<unknown> = Promise.resolve();
  #cancelPoll: (() => void) | null = null;
  #closing: Promise<void> | null = null;

  static async open(options: PostgresSharedOptions): Promise<PostgresShared> {
    const connection = new PostgresConnection(options.url);
    let store: PostgresShared | null = null;
    try {
      await openPart(connection, options.part);
      store = new PostgresShared(connection, options);
      await store.#load();
      return store;
    } catch (cause) {
      await (store?.close() ?? connection.close());
      throw cause;
    }
  }

  private constructor(connection: PostgresConnection, options: PostgresSharedOptions) {
    this.#connection = connection;
    this.#options = options;
    this.#mirror = new Mirror(options.folder, `${options.part}-mirror`);
  }

  get(key: StoreKey): StoredRecord | null {
    return this.#mirror.get(key);
  }

  page(range: StoreRange): StoreEntry[] {
    return this.#mirror.page(range);
  }

  async commit(changes: readonly StoreChange[]): Promise<boolean> {
    this.#mirror.assertOpen();
    if (this.#options.readOnly === true) throw new Error('these records are only looked at');
    const steps = stepsOf(changes);
    return await this.#inTurn(async () => {
      const version = await this.#written(steps);
      // Who asked looks again at what another process has changed.
      if (version === null) await this.#refresh();
      else await this.#mirror.apply(steps.map(({ key, value }) => ({ key, version, value })));
      return version !== null;
    });
  }

  /** A commit resolves when the database has it. */
  async flushed(): Promise<void> {}

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#cancelPoll?.();
    await this.#turn;
    await this.#connection.close();
    await this.#mirror.close();
  }

  async #load(): Promise<void> {
    const { part, follows, readOnly } = this.#options;
    // Before the pages: what is written while they are read comes again with the first refresh.
    this.#version = Number((await readPart(this.#connection, part)).version);
    for await (const rows of allRows(this.#connection, part)) await this.#mirror.apply(rows);
    await this.#refresh();
    if (follows) this.#pollLater();
    // Nothing is asked of the database any more: of many parts, each would keep a connection.
    else if (readOnly === true) await this.#connection.close();
  }

  #pollLater(): void {
    this.#cancelPoll = this.#options.clock.after(sharedPollMs, () => {
      // While the database does not answer, no other process can change anything there either.
      void this.#inTurn(() => this.#refresh().catch(() => {})).then(() => {
        if (this.#closing === null) this.#pollLater();
      });
    });
  }

  /** Takes over what was written since. */
  async #refresh(): Promise<void> {
    if (this.#closing !== null) return;
    const values = [this.#options.part, this.#version];
    const { version } = await readPart(this.#connection, this.#options.part);
    if (Number(version) === this.#version) return;
    const { rows } = await this.#connection.query<RecordRow>(statements.changes, values);
    await this.#mirror.apply(rows.map(mirrorRow));
    this.#version = Number(rows.at(-1)?.version ?? version);
  }

  #inTurn<Result>(act: () => Promise<Result>): Promise<Result> {
    const result = this.#turn.then(act);
    this.#turn = result.catch(() => {});
    return result;
  }

  /** @returns the version, or null where a condition did not hold. */
  async #written(steps: readonly Step[]): Promise<number | null> {
    let version: number | null = null;
    const note = (given: number) => {
      version = given;
    };
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await this.#connection.run((query) => this.#transaction(query, steps, note));
      } catch (cause) {
        if (cause instanceof ConnectionLost) {
          if (version !== null && (await this.#isWritten(steps, version))) return version;
          throw unavailable(cause);
        }
        if (!isConflict(cause) || attempt === postgresConflictsMax) throw cause;
      }
    }
  }

  /** @param note is told the version before anything is written. */
  async #transaction(
    query: Query,
    steps: readonly Step[],
    note: (version: number) => void,
  ): Promise<number | null> {
    const { part } = this.#options;
    await query(statements.begin);
    try {
      const next = await query<{ version: string }>(statements.nextVersion, [part]);
      const version = Number(next.rows[0]?.version);
      if (!(await this.#hold(query, steps))) {
        await query(statements.rollback);
        return null;
      }
      const last = [...new Map(steps.map((step) => [step.key.toString('latin1'), step])).values()];
      const keys = last.map(({ key }) => key);
      const bytes = last.map(({ value }) => value);
      note(version);
      await query(statements.put, [part, version, keys, bytes]);
      await query(statements.commit);
      return version;
    } catch (cause) {
      if (!(cause instanceof ConnectionLost)) await query(statements.rollback);
      throw cause;
    }
  }

  async #hold(query: Query, steps: readonly Step[]): Promise<boolean> {
    const keys = steps.map(({ key }) => key);
    const values = [this.#options.part, keys];
    const { rows } = await query<Pick<RecordRow, 'key' | 'version'>>(statements.versions, values);
    const versions = new Map(rows.map((row) => [row.key.toString('latin1'), Number(row.version)]));
    return steps.every(({ key, change: { expected } }) => {
      return expected === undefined || expected === (versions.get(key.toString('latin1')) ?? null);
    });
  }

  /** Whether a commit whose answer was lost was carried out. It has ended when the part's row can be written. */
  async #isWritten(steps: readonly Step[], version: number): Promise<boolean> {
    const { part, clock } = this.#options;
    const endMs = clock.monotonicMs() + postgresDoubtMs;
    for (;;) {
      try {
        await this.#connection.query(statements.nextVersion, [part]);
        const values = [part, version - 1];
        const { rows } = await this.#connection.query<RecordRow>(statements.changes, values);
        return rows.map(mirrorRow).some((row) => row.version === version && isOf(steps, row));
      } catch (cause) {
        if (!(cause instanceof ConnectionLost) || clock.monotonicMs() > endMs) throw cause;
        await delay(leasePollMs);
      }
    }
  }
}

function isOf(steps: readonly Step[], row: MirrorRow): boolean {
  const step = steps.findLast(({ key }) => key.equals(row.key));
  if (step === undefined) return false;
  return step.value === null ? row.value === null : row.value?.equals(step.value) === true;
}

function unavailable({ message: error }: Error): ApiError {
  return new ApiError('unavailable', { error }, { retryAfterMs: limits.storeRetryMs });
}
