/**
 * Owns the order in which an actor's messages wait, and the bound on their number.
 * It must never drop a message, change the order or read a message.
 */
import { ApiError } from '../errors.js';
import { limits } from '../limits/index.js';

export class Mailbox<Item> {
  #items: Item[] = [];
  #first = 0;

  /** @throws ApiError `overloaded` when `limits.mailboxLengthMax` messages wait already. */
  push(item: Item): void {
    if (this.length >= limits.mailboxLengthMax) throw new ApiError('overloaded');
    this.#items.push(item);
  }

  /** For a message that ends something the actor admitted or started: a refusal would leak that thing. */
  pushUnbounded(item: Item): void {
    this.#items.push(item);
  }

  shift(): Item | undefined {
    const item = this.#items[this.#first];
    if (item === undefined) return undefined;
    this.#first += 1;
    if (this.#first * 2 > this.#items.length) this.#drop();
    return item;
  }

  get length(): number {
    return this.#items.length - this.#first;
  }

  /** Frees taken items once they are more than half of the array, so that a shift is cheap on average. */
  #drop(): void {
    this.#items = this.#items.slice(this.#first);
    this.#first = 0;
  }
}
