/**
 * Owns the upstreams of one model: which one a task goes to, how busy each is, which are dead and when they are back.
 * It must never give up on an upstream: dead ones are asked last, and normally again once they answer a check.
 */
import { createHash } from 'node:crypto';
import { type Clock, limits, type RemoteSpec, type UpstreamSpec } from 'preface/plugin';
import { Connection } from './connection.js';
import { type Dialect, dialectOf, plainDialect, seesAt, seesBy } from './dialect.js';

export class Replica {
  readonly connection: Connection;
  /** Requests that wait or run on this upstream. */
  running = 0;
  isAlive = true;
  dialect: Dialect = plainDialect;
  /** The server says that its model looks at images. */
  sees = false;
  /** Told when that changes. */
  onSight: () => void = () => {};
  /** Resolves after the first check, whatever its result. */
  readonly looked: Promise<void>;
  readonly #beside: Connection;
  #cancelNext = () => {};
  readonly #closed = new AbortController();

  constructor(
    readonly upstream: UpstreamSpec,
    readonly remote: RemoteSpec,
    readonly clock: Clock,
    readonly log: (line: string) => void,
  ) {
    this.connection = new Connection(upstream, remote);
    this.#beside = new Connection({ ...upstream, url: upstream.url.replace(/\/v1$/, '') }, remote);
    this.looked = this.#look();
  }

  /** A request failed in a way that says that the server is down. */
  died(why: string): void {
    if (!this.isAlive) return;
    this.isAlive = false;
    this.log(`upstream ${this.upstream.url} is taken as dead: ${why}`);
  }

  #see(sees: boolean): void {
    if (sees === this.sees) return;
    this.sees = sees;
    this.onSight();
  }

  /** llama-server tells it beside `/v1`; other servers have no such route. */
  async #propsSay(signal: AbortSignal): Promise<boolean> {
    const { url } = this.upstream;
    if (!this.dialect.tellsSightAtProps || !url.endsWith('/v1')) return false;
    const firstByteMs = limits.upstreamLookMsMax;
    const answer = await this.#beside.ask({ path: '/props', body: null, signal, firstByteMs });
    const text = await answer.text();
    return answer.status === 200 && seesAt(text);
  }

  async close(): Promise<void> {
    this.#cancelNext();
    this.#closed.abort();
    this.connection.close();
    this.#beside.close();
  }

  /** Any answer below status 500 shows life. The list of models also tells what kind of server it is. */
  async #look(): Promise<void> {
    try {
      const { signal } = this.#closed;
      const ask = { path: '/models', body: null, signal, firstByteMs: limits.upstreamLookMsMax };
      const answer = await this.connection.ask(ask);
      const text = await answer.text();
      if (answer.status >= 500) throw new Error(`it answers ${answer.status}`);
      if (answer.status < 300) {
        const { model, server = null } = this.upstream;
        this.dialect = dialectOf(text, model, server);
        this.#see(seesBy(text, this.upstream.model) || (await this.#propsSay(signal)));
      }
      if (!this.isAlive) this.log(`upstream ${this.upstream.url} is back`);
      this.isAlive = true;
    } catch (cause) {
      if (this.#closed.signal.aborted) return;
      this.died((cause as Error).message);
    }
    if (this.#closed.signal.aborted) return;
    this.#cancelNext = this.clock.after(this.remote.healthMs, () => void this.#look());
  }
}

export class Replicas {
  readonly all: readonly Replica[];
  #turn = 0;

  constructor(remote: RemoteSpec, clock: Clock, log: (line: string) => void) {
    this.all = remote.upstreams.map((upstream) => new Replica(upstream, remote, clock, log));
  }

  /**
   * Every replica, the best first.
   * @param key requests with equal keys go to one replica, which keeps their prefix warm; null for the least busy replica.
   */
  order(key: string | null): readonly Replica[] {
    const ranked = key === null ? this.#byLoad() : this.#byHash(key);
    return [...ranked.filter(({ isAlive }) => isAlive), ...ranked.filter((each) => !each.isAlive)];
  }

  async close(): Promise<void> {
    await Promise.all(this.all.map((replica) => replica.close()));
  }

  /** Rendezvous hashing: when a replica leaves or joins, only its own keys move. */
  #byHash(key: string): Replica[] {
    const rank = ({ upstream }: Replica) =>
      createHash('sha256').update(`${key}\0${upstream.url}\0${upstream.model}`).digest('hex');
    const ranked = this.all.map((replica) => ({ replica, rank: rank(replica) }));
    return ranked.sort((a, b) => (a.rank < b.rank ? 1 : -1)).map(({ replica }) => replica);
  }

  /** Equally busy replicas take turns. */
  #byLoad(): Replica[] {
    const { length } = this.all;
    this.#turn = (this.#turn + 1) % length;
    const turned = [...this.all.slice(this.#turn), ...this.all.slice(0, this.#turn)];
    return turned.sort((a, b) => a.running - b.running);
  }
}
