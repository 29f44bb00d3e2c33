/**
 * Owns the batches for the tokenization pool: the texts that one turn of the event loop asks for become one task.
 * It must never let the text of one request fail another request, nor let small texts wait for a large one.
 */
import { ApiError, fromErrorValue } from '../errors.js';
import { limits } from '../limits/index.js';
import type { PackedText, TokenizeResult, TokenizerRef, TokenizeTask } from './messages.js';
import { textOf } from './packed-text.js';
import { ThreadEndedError } from './pool.js';

export interface TokenizePool {
  /** @param owner takes the turn for a long text; a batch of short texts belongs to no owner. */
  run(task: TokenizeTask, owner?: string): Promise<TokenizeResult>;
}

type Ids = Uint32Array;

export interface Encoded {
  /** Numbers of ids, text by text. */
  readonly lengths: readonly number[];
  /** null where there are more than were asked for. */
  readonly ids: readonly Ids[] | null;
}

/** The texts of one request. */
interface Order {
  readonly owner: string;
  readonly texts: readonly (string | PackedText)[];
  readonly length: number;
  /** Of more ids, only their number is wanted. */
  readonly idsMax: number;
  resolve(encoded: Encoded): void;
  reject(cause: unknown): void;
}

interface Batch {
  readonly tokenizer: TokenizerRef;
  readonly orders: Order[];
  texts: number;
  /** UTF-16 units of all texts. */
  length: number;
}

export class EncodeBatches {
  /** Batches that leave at the end of this turn, by the name of their tokenizer. */
  readonly #waiting = new Map<string, Batch>();

  /** Orders whose thread died are retried one at a time, so that a second death shows which order causes it. */
  #again: Promise<void> = Promise.resolve();

  constructor(readonly pool: TokenizePool) {}

  encode(
    owner: string,
    tokenizer: TokenizerRef,
    texts: readonly (string | PackedText)[],
    idsMax = Number.POSITIVE_INFINITY,
  ): Promise<Encoded> {
    const length = texts.reduce((sum, text) => sum + text.length, 0);
    return new Promise((resolve, reject) => {
      const order = { owner, texts, length, idsMax, resolve, reject };
      if (length > limits.encodeTaskLengthMax) void this.#run(tokenizer, [order]);
      // The memory of a packed text may hold many others, which need not cross with it.
      else this.#add(tokenizer, { ...order, texts: texts.map(asText) });
    });
  }

  #add(tokenizer: TokenizerRef, order: Order): void {
    const name = `${tokenizer.module}\0${tokenizer.path ?? ''}`;
    let batch = this.#waiting.get(name);
    if (batch !== undefined && !hasRoom(batch, order)) {
      this.#leave(name, batch);
      batch = undefined;
    }
    batch ??= this.#open(name, tokenizer);
    batch.orders.push(order);
    batch.texts += order.texts.length;
    batch.length += order.length;
  }

  #open(name: string, tokenizer: TokenizerRef): Batch {
    const batch: Batch = { tokenizer, orders: [], texts: 0, length: 0 };
    this.#waiting.set(name, batch);
    setImmediate(() => this.#leave(name, batch));
    return batch;
  }

  #leave(name: string, batch: Batch): void {
    if (this.#waiting.get(name) !== batch) return;
    this.#waiting.delete(name);
    void this.#run(batch.tokenizer, batch.orders);
  }

  /** Never rejects. After a failure each order is retried alone, so that only the order at fault fails. */
  async #run(tokenizer: TokenizerRef, orders: readonly Order[], again = false): Promise<void> {
    const texts = orders.flatMap((order) => order.texts);
    const [first] = orders;
    const only = orders.length === 1 ? first : undefined;
    const bound = only === undefined ? {} : { idsMax: only.idsMax };
    try {
      const task = { type: 'encode', tokenizer, texts, ...bound } as const;
      deliver(orders, encodedOf(await this.pool.run(task, only?.owner), texts.length));
    } catch (cause) {
      const isThere = texts.every((text) => typeof text === 'string' || !isMoved(text));
      if (cause instanceof ThreadEndedError && !again && isThere) this.#retry(tokenizer, orders);
      else if (orders.length === 1) orders[0]?.reject(cause);
      else for (const order of orders) void this.#run(tokenizer, [order]);
    }
  }

  #retry(tokenizer: TokenizerRef, orders: readonly Order[]): void {
    for (const order of orders) {
      this.#again = this.#again.then(() => this.#run(tokenizer, [order], true));
    }
  }
}

function hasRoom(batch: Batch, order: Order): boolean {
  return (
    batch.texts + order.texts.length <= limits.encodeTaskTextsMax &&
    batch.length + order.length <= limits.encodeTaskLengthMax
  );
}

function asText(text: string | PackedText): string {
  return typeof text === 'string' ? text : textOf(text);
}

/** A long text whose thread ended is gone with it. */
function isMoved({ memory }: PackedText): boolean {
  return memory.byteLength === 0;
}

function deliver(orders: readonly Order[], { lengths, ids }: Encoded): void {
  let from = 0;
  for (const order of orders) {
    const to = from + order.texts.length;
    order.resolve({ lengths: lengths.slice(from, to), ids: ids?.slice(from, to) ?? null });
    from = to;
  }
}

function encodedOf(result: TokenizeResult, texts: number): Encoded {
  if (result.type === 'error') throw fromErrorValue(result.error);
  if (result.type !== 'encoded' || result.lengths.length !== texts) throw outOfTurn(result);
  const { ids } = result;
  const lengths = [...result.lengths];
  if (ids === null) return { lengths, ids };
  let end = 0;
  const parts = lengths.map((length) => {
    end += length;
    // A copy: a view of one text's ids would keep the ids of all texts in memory.
    return ids.slice(end - length, end);
  });
  return { lengths, ids: parts };
}

export function outOfTurn(result: TokenizeResult): ApiError {
  return new ApiError('server', {
    error: `the tokenizer gave the unexpected answer '${result.type}'`,
  });
}
