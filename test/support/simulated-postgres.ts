/**
 * Owns a database of parts as a simulation needs it: the statements of the store, carried out one after the other in memory.
 * It must never answer otherwise than PostgreSQL, which a test compares it with.
 */
import { keyBytes } from '../../src/store/key-order.js';
import type { Answer, Statement } from '../../src/store/postgres-connection.js';
import { statements, tables } from '../../src/store/postgres-tables.js';
import type { StoreKey } from '../../src/store/store.js';

interface Part {
  readonly storeId: string;
  readonly format: number;
  version: number;
  fence: number;
  holder: string;
  heldUntilMs: number;
}

interface Row {
  readonly key: Buffer;
  readonly version: number;
  readonly value: Buffer | null;
}

type Values = readonly unknown[];
type Rows = readonly object[];

const NONE: Rows = [];

export class SimulatedPostgres {
  readonly #parts = new Map<string, Part>();
  /** By part, then by the key's bytes as Latin-1 text. */
  readonly #rows = new Map<string, Map<string, Row>>();
  readonly #acts: ReadonlyMap<string, (values: Values) => Rows | number>;
  /** Writes that came with the fence of an earlier holder. */
  fencedCount = 0;
  /** Without it, a database that a simulation must find fault with. */
  checksFence = true;

  /** @param nowMs its own clock. */
  constructor(readonly nowMs: () => number) {
    const acts: [Statement, (values: Values) => Rows | number][] = [
      ...tables.map((table): [Statement, () => Rows] => [table, () => NONE]),
      [statements.addPart, (values) => this.#addPart(values)],
      [statements.readPart, ([part]) => this.#shown(part)],
      [statements.takeLease, (values) => this.#take(values)],
      [statements.retakeLease, (values) => this.#retake(values)],
      [statements.renewLease, (values) => this.#renew(values)],
      [statements.releaseLease, (values) => this.#release(values)],
      [statements.announceNode, (values) => this.#announce(values)],
      [statements.removeNode, ([row]) => Number(this.#parts.delete(String(row)))],
      [statements.removeDeadNodes, ([ms]) => this.#removeDead(Number(ms))],
      [statements.holders, () => this.#holders()],
      [statements.write, (values) => this.#write(values)],
      [statements.forget, (values) => this.#forget(values)],
      [statements.prune, (values) => this.#prune(values)],
      [statements.rows, (values) => this.#found(values)],
      [statements.page, (values) => this.#page(values)],
      [statements.changes, (values) => this.#changes(values)],
    ];
    this.#acts = new Map(acts.map(([{ name }, act]) => [name, act]));
  }

  carryOut<Row>({ name }: Statement, values: Values): Answer<Row> {
    const act = this.#acts.get(name);
    if (act === undefined) throw new Error(`the simulated database does not know ${name}`);
    const done = act(values);
    if (typeof done === 'number') return { rows: [], count: done };
    return { rows: done as Row[], count: done.length };
  }

  /** What it holds now. */
  valueAt(part: string, key: StoreKey): Buffer | null {
    return this.#rowsOf(part).get(keyBytes(key).toString('latin1'))?.value ?? null;
  }

  #addPart([part, storeId, format]: Values): number {
    if (this.#parts.has(String(part))) return 0;
    const lease = { version: 0, fence: 0, holder: '', heldUntilMs: 0 };
    const made = { storeId: String(storeId), format: Number(format) };
    this.#parts.set(String(part), Object.assign(made, lease));
    return 1;
  }

  #shown(part: unknown): Rows {
    const found = this.#parts.get(String(part));
    if (found === undefined) return NONE;
    const { storeId, format, version, fence, holder } = found;
    const [whole, seen, given] = [`${format}`, `${version}`, `${fence}`];
    return [{ store_id: storeId, format: whole, version: seen, fence: given, holder }];
  }

  #take([part, holder, ms]: Values): Rows {
    const found = this.#parts.get(String(part));
    if (found === undefined) return NONE;
    if (found.heldUntilMs >= this.nowMs() && found.holder !== holder) return NONE;
    found.holder = String(holder);
    return this.#taken(found, ms);
  }

  #retake([part, holder, ms]: Values): Rows {
    const found = this.#parts.get(String(part));
    if (found === undefined || found.holder !== holder) return NONE;
    return this.#taken(found, ms);
  }

  #taken(part: Part, ms: unknown): Rows {
    part.fence += 1;
    part.heldUntilMs = this.nowMs() + Number(ms);
    return [{ fence: `${part.fence}`, version: `${part.version}` }];
  }

  #renew([part, fence, ms]: Values): number {
    const held = this.#heldBy(part, fence);
    if (held === null) return 0;
    held.heldUntilMs = this.nowMs() + Number(ms);
    return 1;
  }

  #release([part, fence]: Values): number {
    const held = this.#heldBy(part, fence);
    if (held === null) return 0;
    held.holder = '';
    held.heldUntilMs = 0;
    return 1;
  }

  #announce([row, storeId, format, node, ms]: Values): number {
    const isNew = this.#addPart([row, storeId, format]) === 1;
    const made = this.#parts.get(String(row));
    if (made === undefined) return 0;
    if (isNew) made.holder = String(node);
    made.heldUntilMs = this.nowMs() + Number(ms);
    return 1;
  }

  #removeDead(ms: number): number {
    const dead = [...this.#parts].filter(
      ([row, { heldUntilMs }]) => row.startsWith('node-') && heldUntilMs < this.nowMs() - ms,
    );
    return dead.filter(([row]) => this.#parts.delete(row)).length;
  }

  #holders(): Rows {
    return [...this.#parts]
      .filter(([part]) => /^(?:records$|records-|node-)/.test(part))
      .flatMap(([part, { heldUntilMs }]) =>
        this.#shown(part).map((row) => ({
          part,
          ...row,
          held: heldUntilMs >= this.nowMs(),
        })),
      );
  }

  #heldBy(part: unknown, fence: unknown): Part | null {
    const found = this.#parts.get(String(part));
    return found !== undefined && fence !== null && found.fence === Number(fence) ? found : null;
  }

  #write([part, fence, ms, version, parts, keys, values]: Values): number {
    const held = this.#heldBy(part, fence);
    if (held === null) this.fencedCount += 1;
    const written = held ?? (this.checksFence ? null : (this.#parts.get(String(part)) ?? null));
    if (written === null) return 0;
    written.version = Number(version);
    written.heldUntilMs = this.nowMs() + Number(ms);
    const bytes = values as readonly (Buffer | null)[];
    for (const [at, key] of (keys as readonly Buffer[]).entries()) {
      const row = { key, version: Number(version), value: bytes[at] ?? null };
      this.#rowsOf((parts as readonly string[])[at]).set(key.toString('latin1'), row);
    }
    return (keys as readonly Buffer[]).length;
  }

  #forget([part, keys]: Values): number {
    const rows = this.#rowsOf(part);
    const gone = (keys as readonly Buffer[]).filter((key) => {
      const text = key.toString('latin1');
      return rows.get(text)?.value === null && rows.delete(text);
    });
    return gone.length;
  }

  #prune([part, first]: Values): number {
    const rows = this.#rowsOf(part);
    const gone = [...rows.keys()].filter((key) => key < (first as Buffer).toString('latin1'));
    return gone.filter((key) => rows.delete(key)).length;
  }

  #found([part, keys]: Values): Rows {
    const rows = this.#rowsOf(part);
    const wanted = new Set((keys as readonly Buffer[]).map((key) => key.toString('latin1')));
    return [...wanted].flatMap((key) => rows.get(key) ?? []).map(shownRow);
  }

  #page([part, after, length]: Values): Rows {
    const last = (after as Buffer).toString('latin1');
    return [...this.#rowsOf(part)]
      .filter(([key]) => key > last)
      .sort(([one], [other]) => (one < other ? -1 : 1))
      .slice(0, Number(length))
      .map(([, row]) => shownRow(row));
  }

  #changes([part, version]: Values): Rows {
    return [...this.#rowsOf(part).values()]
      .filter((row) => row.version > Number(version))
      .sort((one, other) => one.version - other.version)
      .map(shownRow);
  }

  #rowsOf(part: unknown): Map<string, Row> {
    const known = this.#rows.get(String(part)) ?? new Map<string, Row>();
    this.#rows.set(String(part), known);
    return known;
  }
}

function shownRow({ key, version, value }: Row): object {
  return { key, version: `${version}`, value };
}
