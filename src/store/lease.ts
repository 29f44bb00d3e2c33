/**
 * Owns this process's lease of a part: while it is held, no other process writes the part.
 * It must never count as held for longer than the database grants it, by either of this machine's own clocks.
 *
 * Each taking of the lease has a number, the fence, and the database carries out no write with an older one. So a process that
 * was paused for longer than its lease writes nothing, whatever it believes.
 */
import type { Clock } from '../clock.js';
import { limits } from '../limits/index.js';
import { logKey, logOf, packKeys } from './change-log.js';
import type { MirrorRow } from './mirror.js';
import { type DatabaseDoor, isConflict } from './postgres-connection.js';
import { PARTED_FORMAT, shardsHolder } from './postgres-part.js';
import { type PartName, statements } from './postgres-tables.js';

/** Another process has the part now, or what became of a write cannot be told. */
export class LeaseLost extends Error {
  override readonly name = 'LeaseLost';
}

export interface LeaseParts {
  readonly connection: DatabaseDoor;
  readonly part: PartName;
  /** Names this process, and no other; without a space. */
  readonly holder: string;
  readonly clock: Clock;
  /** It is that of one of so many shards; of all records, or of whatever lies in the part, if absent or 1. */
  readonly shards?: number | undefined;
}

/** The monotonic clock may stand still while the machine is suspended; the wall clock may jump back. */
interface Moment {
  readonly monotonicMs: number;
  readonly wallMs: number;
}

const PAST: Moment = {
  monotonicMs: Number.NEGATIVE_INFINITY,
  wallMs: Number.NEGATIVE_INFINITY,
};

interface Taken {
  readonly fence: string;
  readonly version: string;
}

const { leaseMs, leaseMarginMs, leaseRenewMs, postgresConflictsMax } = limits;

export class Lease {
  readonly #parts: LeaseParts;
  #fence: number | null = null;
  #holder: string;
  #version = 0;
  /** It ends when either clock has reached it. */
  #end = PAST;

  constructor(parts: LeaseParts) {
    this.#parts = parts;
    this.#holder = parts.holder;
  }

  get held(): boolean {
    return this.#leftMs > 0;
  }

  /** Whether it was taken, and nobody was seen to take it since. */
  get isTaken(): boolean {
    return this.#fence !== null;
  }

  /** Whether the database names this process as the holder. */
  isOf(holder: string): boolean {
    return holder.split(' ')[0] === this.#parts.holder;
  }

  /** Its number; null where it is not held. */
  get fence(): number | null {
    return this.#fence;
  }

  /** The version of the part's last change. */
  get version(): number {
    return this.#version;
  }

  /** Whether its end is near. */
  get isDue(): boolean {
    return this.#leftMs < leaseMs - leaseMarginMs - leaseRenewMs;
  }

  get #leftMs(): number {
    const { monotonicMs, wallMs } = this.#now();
    return Math.min(this.#end.monotonicMs - monotonicMs, this.#end.wallMs - wallMs);
  }

  /** @param origin where others reach the holder. @returns false while another process holds it. @throws ConnectionLost. */
  async take(origin = ''): Promise<boolean> {
    const { connection, part, holder, shards = 1 } = this.#parts;
    this.#holder = `${holder} ${origin}`.trimEnd();
    const sent = this.#now();
    const values = [part, this.#holder, leaseMs];
    const { rows } =
      shards === 1
        ? await connection.query<Taken>(statements.takeLease, values)
        : await connection.query<Taken>(statements.takeShard, [...values, shardsHolder(shards)]);
    return this.#taken(rows[0], sent);
  }

  /**
   * Ends whatever this process sent before: it is carried out before this resolves, or never.
   * @throws LeaseLost, ConnectionLost.
   */
  async retake(): Promise<void> {
    const { connection, part } = this.#parts;
    const sent = this.#now();
    const values = [part, this.#holder, leaseMs];
    const { rows } = await connection.query<Taken>(statements.retakeLease, values);
    if (!this.#taken(rows[0], sent)) throw this.#lost();
  }

  /** @throws LeaseLost, ConnectionLost. */
  async renew(): Promise<void> {
    const { connection, part } = this.#parts;
    const sent = this.#now();
    const values = [part, this.#fence, leaseMs];
    const { count } = await connection.query(statements.renewLease, values);
    if (count === 0) throw this.#lost();
    this.#extend(sent);
  }

  /**
   * Writes all rows or none, and their keys into the log; each row gets `version`. It renews the lease too.
   * @throws LeaseLost, and nothing is written; ConnectionLost, and `retake` tells.
   */
  async write(version: number, rows: readonly Omit<MirrorRow, 'version'>[]): Promise<void> {
    const { connection, part } = this.#parts;
    const sent = this.#now();
    const changed = rows.map(({ key }) => key);
    const parts = [...rows.map(() => part), logOf(part)];
    const keys = [...changed, logKey(version)];
    const bytes = [...rows.map(({ value }) => value), packKeys(changed)];
    const values = [part, this.#fence, leaseMs, version, parts, keys, bytes];
    const { count } = await withoutConflicts(() => connection.query(statements.write, values));
    if (count === 0) throw this.#lost();
    this.#version = version;
    this.#extend(sent);
  }

  /** The next process need not wait for its end. */
  async release(): Promise<void> {
    const fence = this.#fence;
    if (fence === null) return;
    const { connection, part } = this.#parts;
    this.drop();
    await connection.query(statements.releaseLease, [part, fence]);
  }

  /** Nobody takes the part any more: its records lie in shards. @throws LeaseLost, ConnectionLost. */
  async part(shards: number): Promise<void> {
    const { connection, part } = this.#parts;
    const values = [part, this.#fence, PARTED_FORMAT, shardsHolder(shards)];
    const { count } = await connection.query(statements.partRecords, values);
    if (count === 0) throw this.#lost();
    this.drop();
  }

  /** It is not held from now on. */
  drop(): void {
    this.#fence = null;
    this.#end = PAST;
  }

  #taken(row: Taken | undefined, sent: Moment): boolean {
    if (row === undefined) return false;
    this.#fence = Number(row.fence);
    this.#version = Number(row.version);
    this.#extend(sent);
    return true;
  }

  #now(): Moment {
    const { clock } = this.#parts;
    return { monotonicMs: clock.monotonicMs(), wallMs: clock.nowMs() };
  }

  #extend({ monotonicMs, wallMs }: Moment): void {
    const lastsMs = leaseMs - leaseMarginMs;
    this.#end = { monotonicMs: monotonicMs + lastsMs, wallMs: wallMs + lastsMs };
  }

  #lost(): LeaseLost {
    this.drop();
    const { connection, part } = this.#parts;
    return new LeaseLost(`another process took over the ${part} in ${connection.database}`);
  }
}

/** Some databases leave it to their clients to run a transaction again that met another one. */
async function withoutConflicts<Result>(act: () => Promise<Result>): Promise<Result> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await act();
    } catch (cause) {
      if (!isConflict(cause) || attempt === postgresConflictsMax) throw cause;
    }
  }
}
