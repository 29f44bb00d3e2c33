/**
 * Owns the way of a request to the shard of its owner, on this node or on another one.
 * It must never let two shards answer for one owner, nor this node for a shard that it does not hold.
 */
import type { Exchange } from '../http/exchange.js';
import { unavailable } from '../http/forward.js';
import type { RequestHead } from '../http/request.js';
import { type Route, Router } from '../http/router.js';
import type { Instead } from '../http/server.js';
import { limits } from '../limits/index.js';
import { shardOf } from '../rules/shards.js';
import type { Standing } from './records.js';

/** Whose a request is; null: nobody that is known. */
export type OwnerOf = (head: Pick<RequestHead, 'path' | 'headers'>) => string | null;

/** What this node is open with: before it only tells of itself. */
export interface OpenTable {
  readonly ownerOf: OwnerOf;
  /** Whose key a request has. */
  readonly callerOf: OwnerOf;
  /** What every node answers to any asker. */
  readonly always: readonly Route[];
}

export class ShardTable {
  readonly #standings: readonly Standing[];
  readonly #meanwhile: readonly Route[];
  #open: OpenTable | null = null;
  #always = new Router([]);
  /** Of each shard that is served here. They are the same rows in the same order. */
  readonly #served: (readonly Route[] | null)[];
  /** Of owners that asked. */
  readonly #shards = new Map<string, number>();
  #isReady = false;
  #tellReady: () => void = () => {};
  /** Resolves when each shard is served, here or by a node that this one knows. From then on a request waits for one shard alone, if for any. */
  readonly ready = new Promise<void>((resolve) => {
    this.#tellReady = resolve;
  });
  /** Told what is answered here from then on. */
  take: (routes: readonly Route[]) => void = () => {};

  /** @param meanwhile what the node answers until it is open. */
  constructor(standings: readonly Standing[], meanwhile: readonly Route[]) {
    this.#standings = standings;
    this.#meanwhile = meanwhile;
    this.#served = standings.map(() => null);
  }

  get isOne(): boolean {
    return this.#standings.length === 1;
  }

  open(open: OpenTable): void {
    this.#open = open;
    this.#always = new Router(this.isOne ? [] : open.always);
    this.take(this.routes);
    this.look();
  }

  /** @param routes null: the shard is not served here any more. */
  serve(shard: number, routes: readonly Route[] | null): void {
    this.#served[shard] = routes;
    this.take(this.routes);
  }

  /** To be called when a shard has another place, or is served here. */
  look(): void {
    if (this.#isReady || this.#open === null) return;
    this.#isReady = this.#standings.every(({ answers }) => answers);
    if (this.#isReady) this.#tellReady();
  }

  get routes(): readonly Route[] {
    if (this.#open === null) return this.#meanwhile;
    const { always } = this.#open;
    const rows = this.#served.find((each) => each !== null) ?? null;
    // One that stands by for all owners tells of itself: all else the node answers that serves.
    if (this.isOne) return rows === null ? this.#meanwhile : [...always, ...rows];
    // What every node answers stands last: it comes before the same row of one shard.
    return [...(rows ?? []).map((row, at) => this.#ofAll(row, at)), ...always];
  }

  /** What answers in place of the routes. */
  readonly instead: Instead = (head) => {
    const { path, query } = head;
    if (this.isOne) return this.#elsewhere(head);
    if (path === '/metrics' || (path === '/health' && query === '')) return null;
    if (path === '/health' || path === '/ready') return this.#isReady ? null : starts;
    if (this.#open === null) return starts;
    if (this.#always.allow(path) !== undefined) return null;
    return this.#elsewhere(head);
  };

  /** A body on its way to another node takes of its caller's memory here, too; all without a known key have that of one. */
  #elsewhere(head: RequestHead): ReturnType<Instead> {
    const answer = this.#standings[this.#shardOf(head)]?.instead(head) ?? null;
    if (answer === null) return null;
    return (exchange) => {
      exchange.heldFor = this.#open?.callerOf(head) ?? NOBODY;
      return answer(exchange);
    };
  }

  /** Where the node listens that serves a WebSocket; null: this one does, or none is known. */
  readonly originOf = (head: Pick<RequestHead, 'path' | 'headers'>): string | null => {
    if (!this.isOne && this.#open === null) return null;
    return this.#standings[this.#shardOf(head)]?.origin ?? null;
  };

  /** A request of nobody is refused by any shard: by one of this node's, where it has one. */
  #shardOf(head: Pick<RequestHead, 'path' | 'headers'>): number {
    if (this.isOne) return 0;
    const owner = this.#open?.ownerOf(head) ?? null;
    if (owner !== null) return this.#shardOfOwner(owner);
    return Math.max(
      0,
      this.#served.findIndex((routes) => routes !== null),
    );
  }

  /** A request asks once or twice, and the hash takes longer than all else of the look. */
  #shardOfOwner(owner: string): number {
    const known = this.#shards.get(owner);
    if (known !== undefined) return known;
    const shard = shardOf(owner, this.#standings.length);
    // Anybody can make up owners, of any length.
    if (owner.length > limits.ownerLengthMax) return shard;
    if (this.#shards.size >= limits.shardOwnersKept) this.#shards.clear();
    this.#shards.set(owner, shard);
    return shard;
  }

  #ofAll(row: Route, at: number): Route {
    const { path, socket } = row;
    const found = (headers: readonly string[], asked: string): Route => {
      const own = this.#served[this.#shardOf({ path: asked, headers })]?.[at];
      if (own === undefined) throw unavailable('this node does not serve the user any more');
      return own;
    };
    const handler: Route['handler'] = (exchange: Exchange, params) =>
      found(exchange.headers, exchange.path).handler(exchange, params);
    if (socket === undefined) return { ...row, handler };
    return { ...row, handler, socket: (asker) => found(asker.headers, path).socket?.(asker) };
  }
}

/** No user has this name. */
const NOBODY = '';

const starts = () => Promise.reject(unavailable('this node starts'));
