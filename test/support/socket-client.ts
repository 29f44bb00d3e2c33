/**
 * Owns a client of a WebSocket as tests need it: each message in its order, and how the connection ended.
 * It must never wait without a bound.
 */
import type { Test } from 'tap';
import { WebSocket } from 'undici';
import type { Event } from './responses-client.js';
import { until } from './until.js';

const LAST = /^(error|response\.(completed|incomplete|failed))$/;

export class SocketClient {
  readonly #socket: WebSocket;
  readonly events: Event[] = [];
  closed: { readonly code: number; readonly reason: string } | null = null;
  failed = false;

  /** @param url of HTTP. */
  constructor(t: Test, url: string, headers: Record<string, string>) {
    this.#socket = new WebSocket(url.replace('http:', 'ws:'), { headers });
    this.#socket.addEventListener('message', ({ data }) => {
      this.events.push(JSON.parse(String(data)) as Event);
    });
    this.#socket.addEventListener('error', () => {
      this.failed = true;
    });
    this.#socket.addEventListener('close', ({ code, reason }) => {
      this.closed = { code, reason };
    });
    t.teardown(() => this.close());
  }

  async opened(): Promise<this> {
    await until(() => this.#socket.readyState !== WebSocket.CONNECTING, undefined, 'opened');
    if (this.failed) throw new Error('the WebSocket was refused');
    return this;
  }

  send(value: unknown): void {
    this.#socket.send(typeof value === 'string' ? value : JSON.stringify(value));
  }

  /** The events of the next answer. */
  async turn(): Promise<Event[]> {
    const end = await until(() => this.#end(), undefined, 'the end of a turn');
    return this.events.splice(0, end);
  }

  async untilClosed(): Promise<{ readonly code: number; readonly reason: string }> {
    const closed = await until(() => this.closed, undefined, 'closed');
    if (closed === null) throw new Error('the wait ended early');
    return closed;
  }

  close(): void {
    if (this.#socket.readyState === WebSocket.OPEN) this.#socket.close();
  }

  #end(): number {
    return this.events.findIndex(({ type }) => LAST.test(type)) + 1;
  }
}
