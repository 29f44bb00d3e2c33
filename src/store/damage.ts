/**
 * Owns what becomes of a record that is damaged: it is left out, and the log says so once.
 * It must never take it for one that is not there: what belongs to it stays.
 */
import { DamagedRecord } from '../codec.js';

/** A disk that fails damages many: those after so many are told again. */
const TOLD_MAX = 10_000;

export class Damage {
  readonly #told = new Set<string>();

  constructor(readonly report: (fault: unknown) => void) {}

  /** @param name of the record, for the log. @returns null where it is damaged. */
  without<Value>(name: string, read: () => Value): Value | null {
    try {
      return read();
    } catch (cause) {
      this.tell(name, cause);
      return null;
    }
  }

  /** @throws the cause where it is another one. */
  tell(name: string, cause: unknown): void {
    if (!(cause instanceof DamagedRecord)) throw cause;
    if (this.#told.has(name)) return;
    if (this.#told.size >= TOLD_MAX) this.#told.clear();
    this.#told.add(name);
    this.report(new Error(`the record ${name} is damaged: it is left out`));
  }
}
