/**
 * Owns what one connection remembers of its last answer, so that the next request can go on from it without a record.
 * It must never hold more than its account may, nor anything behind the end of its connection.
 */
import { encodeRecordInto } from '../codec.js';
import type { KeptItems } from '../protocol/responses-items.js';
import type { LastResponse } from '../responses/earlier.js';
import type { BodyBudget } from './body.js';

type Budget = Pick<BodyBudget, 'bytesMax' | 'ownerBytesMax' | 'hasRoom' | 'give' | 'take'>;

export class TurnMemory {
  #last: LastResponse | null = null;
  /** Of the answer that the turn under way began with: the turn holds it until it is over. */
  #inUseBytes = 0;
  #account: string | null = null;
  #closed = false;

  constructor(readonly budget: Budget) {}

  /** Forgets it: a request that fails leaves nothing to go on from. It counts until the turn is over. */
  take(): LastResponse | null {
    const last = this.#last;
    this.#last = null;
    this.#inUseBytes += last?.bytes ?? 0;
    return last;
  }

  /** The turn is over, and with it what it began with. */
  over(): void {
    if (this.#inUseBytes > 0) this.budget.give(this.#account, this.#inUseBytes);
    this.#inUseBytes = 0;
  }

  /** Without room it is forgotten at once. @param last holds all that it goes on from. */
  keep(account: string | null, last: LastResponse): void {
    this.take();
    this.over();
    if (this.#closed || !this.#hasRoom(account, last.bytes)) return;
    this.budget.take(account, last.bytes);
    this.#account = account;
    this.#last = last;
  }

  close(): void {
    this.#closed = true;
    if (this.#last !== null) this.budget.give(this.#account, this.#last.bytes);
    this.#last = null;
  }

  /** Connections remember for long: half of the room stays free for requests. */
  #hasRoom(account: string | null, bytes: number): boolean {
    const { bytesMax, ownerBytesMax } = this.budget;
    return (
      this.budget.hasRoom(account, bytes + ownerBytesMax / 2) &&
      this.budget.hasRoom(null, bytes + bytesMax / 2)
    );
  }
}

/** @param before what the connection remembered, or the record that the turn goes on from. */
export function rememberedTurn(
  id: string,
  items: KeptItems,
  before: LastResponse | string | null,
): LastResponse {
  // In memory of its own: a view would keep all that the encoder has written beside it.
  const bytes = encodeRecordInto(items, (length) => new ArrayBuffer(length));
  const part = { number: 0, bytes };
  if (before === null || typeof before === 'string') {
    return { id, previous: before, parts: [part], bytes: bytes.byteLength };
  }
  const { previous, parts } = before;
  return { id, previous, parts: [...parts, part], bytes: before.bytes + bytes.byteLength };
}
