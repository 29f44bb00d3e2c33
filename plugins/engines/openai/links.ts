/**
 * Owns the open connections to one server: one user at a time on each, kept for the next one, bounded in number and idle time.
 * It must never hand out a connection on which something came that nobody asked for.
 *
 * Node's own client makes a dozen objects and thirty calls for each request: a chat through it took 85 µs more of CPU.
 */
import { connect, isIP, type Socket } from 'node:net';
import { connect as connectSecurely } from 'node:tls';
import { limits } from 'preface/plugin';
import { later } from '../../later.js';

/** The one request that a connection carries. */
export interface LinkUser {
  /** The connection is there. */
  begin(link: Link): void;
  bytes(bytes: Buffer): void;
  /** The other side sends no more. */
  ended(): void;
  /** It is closed, or could not be made. */
  lost(cause: Error): void;
}

export class Link {
  user: LinkUser | null;
  readonly #socket: Socket;
  #cause: Error | null = null;
  /** When it became idle, and how long it may be. */
  freeMs = 0;
  idleMsMax: number = limits.upstreamKeepAliveMs;

  constructor(socket: Socket, user: LinkUser, onClose: (link: Link) => void) {
    this.#socket = socket;
    this.user = user;
    socket.on('data', (bytes) => {
      if (this.user === null) socket.destroy();
      else this.user.bytes(bytes);
    });
    socket.on('end', () => this.user?.ended());
    socket.on('error', (cause) => {
      this.#cause = cause;
    });
    socket.on('close', () => {
      onClose(this);
      this.user?.lost(this.#cause ?? new Error('it was closed'));
    });
  }

  get isOpen(): boolean {
    return !this.#socket.destroyed;
  }

  /** All that was sent is on its way, and nothing is left to read. */
  get isClean(): boolean {
    return this.isOpen && this.#socket.writableLength === 0 && this.#socket.readableLength === 0;
  }

  send(text: string): void {
    this.#socket.write(text);
  }

  pause(): void {
    this.#socket.pause();
  }

  resume(): void {
    this.#socket.resume();
  }

  /** An idle one keeps no process alive. */
  rest(): void {
    this.user = null;
    this.#socket.resume();
    this.#socket.unref();
  }

  wake(user: LinkUser): void {
    this.user = user;
    this.#socket.ref();
  }

  /** Its user hears no more of it. */
  leave(): void {
    this.user = null;
    this.#socket.destroy();
  }

  /** Its user is told. */
  destroy(cause?: Error): void {
    this.#socket.destroy(cause);
  }
}

export class Links {
  readonly #free: Link[] = [];
  readonly #all = new Set<Link>();
  readonly #waiting = new Set<LinkUser>();
  #sweep: NodeJS.Timeout | null = null;
  #session: Buffer | undefined;

  constructor(
    readonly url: URL,
    readonly connectMs: number,
  ) {}

  /** The user begins at once where a connection is idle, and later where all are at work. */
  take(user: LinkUser): void {
    const link = this.#idle();
    if (link !== null) {
      link.wake(user);
      user.begin(link);
    } else if (this.#all.size < limits.upstreamConnectionsMax) this.#open(user);
    else this.#waiting.add(user);
  }

  /** For one that has not begun: nobody connects or waits for it any more. */
  leave(user: LinkUser): void {
    if (this.#waiting.delete(user)) return;
    for (const link of this.#all) if (link.user === user) link.leave();
  }

  /** @param idleMsMax as the server says. */
  release(link: Link, keepsOpen: boolean, idleMsMax = Number.POSITIVE_INFINITY): void {
    link.user = null;
    if (!keepsOpen || !link.isClean) {
      link.destroy();
      return;
    }
    const [next] = this.#waiting;
    if (next !== undefined) {
      this.#waiting.delete(next);
      link.wake(next);
      next.begin(link);
      return;
    }
    link.rest();
    link.freeMs = performance.now();
    link.idleMsMax = Math.min(limits.upstreamKeepAliveMs, idleMsMax);
    this.#free.push(link);
    this.#sweep ??= setTimeout(() => this.#end(), limits.upstreamKeepAliveMs).unref();
  }

  close(): void {
    if (this.#sweep !== null) clearTimeout(this.#sweep);
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const link of this.#all) link.destroy();
    for (const user of waiting) user.lost(new Error('it was closed'));
  }

  /** The one used last: the server ends those that were idle for longer. */
  #idle(): Link | null {
    for (let link = this.#free.pop(); link !== undefined; link = this.#free.pop()) {
      if (link.isOpen && performance.now() - link.freeMs < link.idleMsMax) return link;
      link.destroy();
    }
    return null;
  }

  #end(): void {
    this.#sweep = null;
    const nowMs = performance.now();
    const kept = this.#free.filter((link) => {
      const isKept = link.isOpen && nowMs - link.freeMs < link.idleMsMax;
      if (!isKept) link.destroy();
      return isKept;
    });
    this.#free.splice(0, this.#free.length, ...kept);
    if (kept.length > 0)
      this.#sweep = setTimeout(() => this.#end(), limits.upstreamKeepAliveMs).unref();
  }

  #open(user: LinkUser): void {
    const socket = this.#connect();
    const link = new Link(socket, user, () => this.#closed(link));
    this.#all.add(link);
    const stop = later(this.connectMs, () => link.destroy(notConnected()));
    socket.once(this.#isSecure ? 'secureConnect' : 'connect', () => {
      stop();
      link.user?.begin(link);
    });
    socket.once('close', stop);
  }

  #closed(link: Link): void {
    this.#all.delete(link);
    const [next] = this.#waiting;
    if (next === undefined || this.#all.size >= limits.upstreamConnectionsMax) return;
    this.#waiting.delete(next);
    this.#open(next);
  }

  get #isSecure(): boolean {
    return this.url.protocol === 'https:';
  }

  #connect(): Socket {
    // An address of IPv6 stands in brackets in a URL alone.
    const host = this.url.hostname.replace(/^\[|\]$/g, '');
    const port = Number(this.url.port || (this.#isSecure ? 443 : 80));
    if (!this.#isSecure) return connect({ host, port, noDelay: true });
    const servername = isIP(host) === 0 ? host : '';
    const socket = connectSecurely({ host, port, servername, session: this.#session });
    socket.setNoDelay(true);
    socket.on('session', (made) => {
      this.#session = made;
    });
    return socket;
  }
}

function notConnected(): Error {
  return Object.assign(new Error('no connection in time'), { code: 'ETIMEDOUT' });
}
