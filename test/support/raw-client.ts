/**
 * Owns a client that sends exactly the given bytes, valid or not, over one TCP connection.
 * It must never wait without a bound.
 */
import { connect, type Socket } from 'node:net';

/** Long enough for a busy machine; a wait for what comes ends when it comes. */
const BOUND_MS = 20_000;

export class RawClient {
  readonly socket: Socket;
  text = '';
  bytes = 0;
  closed = false;
  /** False for large answers, where only the count matters. */
  keepText = true;
  #onChange: (() => void) | null = null;

  constructor(port: number) {
    this.socket = connect(port, '127.0.0.1');
    this.socket.on('data', (chunk) => {
      this.bytes += chunk.length;
      if (this.keepText) this.text += chunk.toString('latin1');
      this.#onChange?.();
    });
    // A reset by the server is a result that tests check, not a failure of the client.
    this.socket.on('error', () => {});
    this.socket.on('close', () => {
      this.closed = true;
      this.#onChange?.();
    });
  }

  send(text: string | Buffer): this {
    this.socket.write(typeof text === 'string' ? Buffer.from(text, 'latin1') : text);
    return this;
  }

  /** Resolves with true when the system has taken all that was sent, with false when it does not in time. */
  flushed(): Promise<boolean> {
    let isTaken = false;
    this.socket.write('', () => {
      isTaken = true;
      this.#onChange?.();
    });
    return this.until(({ closed }) => isTaken || closed);
  }

  /** Resolves with true once `done` holds, with false when it does not within `boundMs`. */
  until(done: (client: this) => boolean, boundMs = BOUND_MS): Promise<boolean> {
    if (done(this)) return Promise.resolve(true);
    return new Promise((resolve) => {
      const settle = (value: boolean): void => {
        clearTimeout(timer);
        this.#onChange = null;
        resolve(value);
      };
      const timer = setTimeout(() => settle(false), boundMs);
      this.#onChange = () => {
        if (done(this)) settle(true);
      };
    });
  }

  /** The text received when it contains `part`, or when the connection is closed or the time is over. */
  async answer(part = '\r\n\r\n', boundMs?: number): Promise<string> {
    await this.until((client) => client.closed || client.text.includes(part), boundMs);
    return this.text;
  }

  untilClosed(boundMs?: number): Promise<boolean> {
    return this.until((client) => client.closed, boundMs);
  }

  destroy(): void {
    this.socket.destroy();
  }
}

/** A well-formed request; header lines without CRLF. */
export function request(line: string, headers: readonly string[] = [], body = ''): string {
  const lines = [`${line} HTTP/1.1`, 'Host: test', ...headers];
  return `${lines.join('\r\n')}\r\n\r\n${body}`;
}
