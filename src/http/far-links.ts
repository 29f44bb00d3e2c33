/**
 * Owns the open connections to another node: one request at a time on each, kept for the next one, bounded in idle time.
 * It must never hand out a connection on which something came that nobody asked for.
 *
 * Node's own client makes a dozen objects and thirty calls for each request, which cost more than most answers.
 */
import { connect, type OnReadOpts, type Socket } from 'node:net';
import type { Clock } from '../clock.js';
import { limits } from '../limits/index.js';

/** The one request that a connection carries. */
export interface LinkUser {
  /** @param bytes are read before it returns: the next ones come to the same memory. */
  bytes(bytes: Buffer): void;
  /** The other side sends no more. */
  ended(): void;
  /** It is closed, or could not be made. */
  lost(cause: Error): void;
}

const READ_BYTES = 64 * 1024;
/** One buffer for all connections: a new one for each read would cost more than the read. */
const shared = Buffer.allocUnsafeSlow(READ_BYTES);
/** After so long without a byte the kernel asks whether the other machine is still there. */
const PROBE_MS = 1_000;

export class Link {
  user: LinkUser | null;
  readonly #socket: Socket;
  #cause: Error | null = null;
  #tellDrained: (() => void) | null = null;
  #isPaused = false;
  /** When it became idle. */
  freeMs = 0;

  constructor(user: LinkUser, socketOf: (onread: OnReadOpts) => Socket) {
    this.user = user;
    const callback = (length: number) => {
      if (this.user === null) this.close();
      else this.user.bytes(shared.subarray(0, length));
      return true;
    };
    const socket = socketOf({ buffer: shared, callback });
    this.#socket = socket;
    socket.on('drain', () => this.#drained());
    socket.on('end', () => this.user?.ended());
    socket.on('error', (cause) => {
      this.#cause = cause;
    });
    socket.on('close', () => {
      this.#drained();
      this.user?.lost(this.#cause ?? new Error('the connection was closed'));
    });
    // Who is answered holds the process.
    socket.unref();
  }

  /** All that was sent is on its way, and nothing ended. */
  get isClean(): boolean {
    const { destroyed, readable, writable, writableLength } = this.#socket;
    return !destroyed && readable && writable && writableLength === 0;
  }

  /** False: the other side reads slowly, so wait for `drained`. */
  write(bytes: Uint8Array): boolean {
    return this.#socket.write(bytes);
  }

  /** Resolves when it takes more, or is closed. */
  drained(): Promise<void> {
    if (this.#socket.destroyed || !this.#socket.writableNeedDrain) return Promise.resolve();
    return new Promise((resolve) => {
      this.#tellDrained = resolve;
    });
  }

  pause(): void {
    this.#isPaused = true;
    this.#socket.pause();
  }

  resume(): void {
    if (!this.#isPaused) return;
    this.#isPaused = false;
    this.#socket.resume();
  }

  /** Its user hears no more of it. */
  close(): void {
    this.user = null;
    this.#socket.destroy();
  }

  /** A machine that is gone answers nothing, and the system would try for minutes. */
  boundConnect(clock: Clock): void {
    const socket = this.#socket;
    const end = () => socket.connecting && socket.destroy(new Error('no connection in time'));
    // A process that was busy for so long has not looked yet whether it was made.
    const cancel = clock.after(limits.forwardConnectMs, () => void setImmediate(end));
    socket.once('connect', cancel);
    socket.once('close', cancel);
  }

  /** Told once, when it is closed. */
  onClose(task: () => void): void {
    this.#socket.once('close', task);
  }

  #drained(): void {
    const tell = this.#tellDrained;
    this.#tellDrained = null;
    tell?.();
  }
}

export class FarLinks {
  readonly #clock: Clock;
  readonly #host: string;
  readonly #port: number;
  readonly #all = new Set<Link>();
  /** The one that was used last stands last. */
  readonly #free: Link[] = [];
  #cancelSweep: (() => void) | null = null;

  constructor(origin: string, clock: Clock) {
    const { hostname, port } = new URL(origin);
    this.#clock = clock;
    // An address of IPv6 stands in brackets in a URL alone.
    this.#host = hostname.replace(/^\[|\]$/g, '');
    this.#port = Number(port || 80);
  }

  /** Perhaps one that is still being made: what is written waits for it. */
  take(user: LinkUser): Link {
    for (let link = this.#free.pop(); link !== undefined; link = this.#free.pop()) {
      if (this.#isFresh(link)) {
        link.user = user;
        return link;
      }
      link.close();
    }
    return this.#open(user);
  }

  /** @param keepsOpen whether it may carry another request. */
  release(link: Link, keepsOpen: boolean): void {
    if (!keepsOpen || !link.isClean) {
      link.close();
      return;
    }
    link.user = null;
    link.resume();
    link.freeMs = this.#clock.monotonicMs();
    this.#free.push(link);
    this.#sweepLater();
  }

  /** Those of requests, too, which are not told. */
  close(): void {
    this.#cancelSweep?.();
    this.#cancelSweep = null;
    this.#free.length = 0;
    for (const link of this.#all) link.close();
  }

  /** The other node closes a connection that rests for longer. The first one has rested longest. */
  #sweepLater(): void {
    const [first] = this.#free;
    if (first === undefined || this.#cancelSweep !== null) return;
    const leftMs = first.freeMs + limits.forwardIdleMs - this.#clock.monotonicMs();
    this.#cancelSweep = this.#clock.after(leftMs, () => {
      this.#cancelSweep = null;
      for (const link of this.#free.splice(0)) {
        if (this.#isFresh(link)) this.#free.push(link);
        else link.close();
      }
      this.#sweepLater();
    });
  }

  #isFresh(link: Link): boolean {
    return link.isClean && this.#clock.monotonicMs() - link.freeMs < limits.forwardIdleMs;
  }

  #open(user: LinkUser): Link {
    const at = { host: this.#host, port: this.#port, noDelay: true };
    const probes = { keepAlive: true, keepAliveInitialDelay: PROBE_MS };
    const link = new Link(user, (onread) => connect({ ...at, ...probes, onread }));
    this.#all.add(link);
    link.onClose(() => this.#all.delete(link));
    link.boundConnect(this.#clock);
    return link;
  }
}
