/**
 * Owns the share of a node in the slots of a database: it says that it lives, sees who else does, and finds which slots are its.
 * It must never write records, nor take a lease itself: the store of a slot asks whether it may.
 */
import type { Clock } from '../clock.js';
import { limits } from '../limits/index.js';
import { givesSlot, type SlotView, slotsToTake } from '../rules/slot-keeper.js';
import { DATA_FORMAT } from './data-format.js';
import type { DatabaseDoor } from './postgres-connection.js';
import { nodeOf } from './postgres-store.js';
import { type HolderRow, type NodeRow, statements } from './postgres-tables.js';

export interface SlotKeeperParts {
  readonly connection: DatabaseDoor;
  /** See `PostgresNode.name`. */
  readonly node: string;
  readonly storeId: string;
  /** How many there are. */
  readonly slots: number;
  readonly clock: Clock;
  /** Another node has too few. Resolves when this one gave a slot up; meanwhile it is not asked again. */
  readonly gives: () => Promise<void>;
}

const { leaseMs, leasePollMs, leaseRenewMs, slotFreeMsMax, deadNodeMs } = limits;
const NODE = 'node-';

export class SlotKeeper {
  readonly #parts: SlotKeeperParts;
  #view: SlotView | null = null;
  #mine: ReadonlySet<number> = new Set();
  /** Since when each slot was seen free without a break. */
  #freeSinceMs: (number | null)[] = [];
  #isGiving = false;
  /** When this node said last that it lives. */
  #saidMs = Number.NEGATIVE_INFINITY;
  #cancel = () => {};
  #looking: Promise<void> = Promise.resolve();
  #closed = false;

  constructor(parts: SlotKeeperParts) {
    this.#parts = parts;
  }

  /** See `PostgresNode.name`. */
  get node(): string {
    return this.#parts.node;
  }

  /** From now on others give slots to this node. Resolves when it has seen all. */
  async start(): Promise<void> {
    await this.#parts.connection
      .query(statements.removeDeadNodes, [deadNodeMs])
      .catch(() => undefined);
    await this.#look();
  }

  /** Whether this node takes the slot if it is free. */
  mayTake(index: number): boolean {
    return this.#mine.has(index);
  }

  /** It is given no slots any more. Those that it holds are its own until it closes them. */
  async leave(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#cancel();
    this.#mine = new Set();
    await this.#looking;
    const { connection } = this.#parts;
    await connection.query(statements.removeNode, [this.#row]).catch(() => undefined);
    await connection.close();
  }

  get #row(): NodeRow {
    return `${NODE}${this.#parts.node}`;
  }

  #look(): Promise<void> {
    this.#looking = this.#once().finally(() => {
      if (!this.#closed)
        this.#cancel = this.#parts.clock.after(leasePollMs, () => void this.#look());
    });
    return this.#looking;
  }

  /** While the database does not answer, what was seen last goes on to hold: a lease is the database's to give. */
  async #once(): Promise<void> {
    const { connection } = this.#parts;
    try {
      await this.#say();
      const { rows } = await connection.query<HolderRow>(statements.holders);
      if (!this.#closed) this.#saw(viewOf(rows, this.#parts));
    } catch {
      this.#view = null;
    }
  }

  async #say(): Promise<void> {
    const { connection, node, storeId, clock } = this.#parts;
    const nowMs = clock.monotonicMs();
    if (nowMs - this.#saidMs < leaseRenewMs) return;
    const values = [this.#row, storeId, DATA_FORMAT, node, leaseMs];
    await connection.query(statements.announceNode, values);
    this.#saidMs = nowMs;
  }

  #saw(view: SlotView): void {
    const { clock, gives } = this.#parts;
    const nowMs = clock.monotonicMs();
    this.#freeSinceMs = view.holders.map((holder, slot) =>
      holder === null ? (this.#freeSinceMs[slot] ?? nowMs) : null,
    );
    const late = [...this.#freeSinceMs.keys()].filter(
      (slot) => nowMs - (this.#freeSinceMs[slot] ?? nowMs) > slotFreeMsMax,
    );
    this.#mine = new Set([...slotsToTake(view), ...late]);
    // Twice: a slot that has just gone over is seen with its new holder.
    const isAgreed = this.#view !== null && givesSlot(this.#view) && givesSlot(view);
    this.#view = view;
    if (!isAgreed || this.#isGiving) return;
    this.#isGiving = true;
    void gives().finally(() => {
      this.#isGiving = false;
      this.#view = null;
    });
  }
}

function viewOf(rows: readonly HolderRow[], { node, slots }: SlotKeeperParts): SlotView {
  const held = rows.filter((row) => row.held);
  const nodes = held.filter(({ part }) => part.startsWith(NODE)).map(({ holder }) => holder);
  const byPart = new Map(held.map(({ part, holder }) => [part, nodeOf(holder)]));
  const holders = Array.from({ length: slots }, (_, slot) => byPart.get(`records-${slot}`) ?? null);
  return { self: node, nodes, holders };
}
