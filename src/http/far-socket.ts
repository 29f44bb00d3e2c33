/**
 * Owns the other half of a WebSocket whose user another node serves: messages pass both ways as they come.
 * It must never hold more of them than a connection of this node may, nor keep one half open without the other.
 */
import type { IncomingMessage } from 'node:http';
import { WebSocket } from 'ws';
import { limits } from '../limits/index.js';
import type { Exchange } from './exchange.js';
import { forwardedHeaders, isForwarded, returnedHeaders, unavailable } from './forward.js';
import type { SocketWire } from './socket-reply.js';

/** The half that the client sees. */
export interface NearSocket extends SocketWire {
  end(code: number, reason: string): unknown;
}

/** The other node did not open it, and says why. */
export class FarRefusal {
  constructor(
    readonly status: number,
    readonly headers: Record<string, string>,
    readonly body: string,
  ) {}
}

const GOING_AWAY = 1001;
/** Codes that stand for an end without a word cannot be sent. */
const UNSENDABLE = new Set([1005, 1006, 1015]);
/** Messages by which a turn ends begin like this. */
const TURN_ENDS = /^\{"type":"(?:error|response\.(?:completed|incomplete|failed))"/;
const TURN_END_BYTES = 64;
const REFUSAL_BYTES_MAX = 64 * 1024;

/** @throws ApiError `unavailable` where the node cannot be reached; FarRefusal. */
export async function openFarSocket(exchange: Exchange, origin: string): Promise<FarSocket> {
  if (isForwarded(exchange)) throw unavailable('this node does not serve');
  const { path, query } = exchange;
  const target = query === '' ? path : `${path}?${query}`;
  const protocols = (exchange.header('sec-websocket-protocol') ?? '').split(',');
  const far = new WebSocket(
    origin.replace(/^http/, 'ws') + target,
    protocols.map((each) => each.trim()).filter((each) => each !== ''),
    {
      headers: askedHeaders(exchange),
      handshakeTimeout: limits.forwardConnectMs,
      maxPayload: limits.farMessageBytesMax,
      perMessageDeflate: false,
    },
  );
  exchange.onGone(() => far.terminate());
  await new Promise<void>((resolve, reject) => {
    far.once('open', resolve);
    far.on('error', () => reject(unavailable('the node that serves did not answer')));
    far.once('unexpected-response', (_request, response) => {
      refusalOf(response).then(reject, reject);
    });
  });
  return new FarSocket(far);
}

function askedHeaders(exchange: Exchange): Record<string, string> {
  const pairs = forwardedHeaders(exchange);
  const kept: Record<string, string> = {};
  for (let i = 0; i < pairs.length; i += 2) {
    const [name = '', value = ''] = [pairs[i], pairs[i + 1]];
    if (!/^(?:host|content-length|sec-websocket-.*)$/.test(name)) kept[name] = value;
  }
  return kept;
}

async function refusalOf(response: IncomingMessage): Promise<FarRefusal> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  for await (const piece of response) {
    bytes += (piece as Buffer).length;
    if (bytes > REFUSAL_BYTES_MAX) break;
    pieces.push(piece as Buffer);
  }
  const body = Buffer.concat(pieces).toString();
  return new FarRefusal(response.statusCode ?? 502, returnedHeaders(response), body);
}

export class FarSocket {
  #near: NearSocket | null = null;
  /** What came before the client's half was open. */
  #early: { readonly data: Buffer; readonly isBinary: boolean }[] = [];
  /** Turns that the client began and the other node did not end yet. */
  #turns = 0;
  #leaving: { readonly code: number; readonly reason: string } | null = null;

  constructor(readonly far: WebSocket) {
    far.binaryType = 'nodebuffer';
    far.on('message', (data, isBinary) => this.#came(data as Buffer, isBinary));
    far.on('error', () => far.terminate());
    far.on('close', (code, reason) => this.#farClosed(code, reason.toString()));
  }

  open(near: NearSocket): void {
    this.#near = near;
    for (const { data, isBinary } of this.#early.splice(0)) this.#came(data, isBinary);
    if (this.far.readyState === WebSocket.CLOSED) near.end(GOING_AWAY, GONE);
  }

  /** @param message is the library's memory. */
  take(message: ArrayBuffer): void {
    if (this.far.readyState !== WebSocket.OPEN || this.#leaving !== null) return;
    if (this.far.bufferedAmount + message.byteLength > limits.farMessageBytesMax) {
      this.#near?.end(GOING_AWAY, 'the node that serves takes no more messages now');
      return;
    }
    this.#turns += 1;
    this.far.send(Buffer.from(message.slice(0)), { binary: false });
  }

  writable(): void {
    const unread = this.#near?.getBufferedAmount() ?? 0;
    if (this.far.isPaused && unread <= limits.streamBacklogBytesMax) this.far.resume();
  }

  /** The client's half is gone. */
  lose(): void {
    this.#near = null;
    this.far.terminate();
  }

  /** It ends when no turn runs. */
  leave(code: number, reason: string): void {
    this.#leaving ??= { code, reason };
    if (this.#turns === 0) this.#near?.end(code, reason);
  }

  #came(data: Buffer, isBinary: boolean): void {
    const near = this.#near;
    if (near === null) return void this.#early.push({ data, isBinary });
    near.send(data, isBinary);
    if (TURN_ENDS.test(data.toString('latin1', 0, TURN_END_BYTES)) && this.#turns > 0)
      this.#turns -= 1;
    if (this.#leaving !== null) this.leave(this.#leaving.code, this.#leaving.reason);
    else if (near.getBufferedAmount() > limits.streamBacklogBytesMax) this.far.pause();
  }

  #farClosed(code: number, reason: string): void {
    if (UNSENDABLE.has(code)) this.#near?.end(GOING_AWAY, GONE);
    else this.#near?.end(code, reason);
  }
}

const GONE = 'the node that served is gone';
