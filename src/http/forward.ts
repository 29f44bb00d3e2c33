/**
 * Owns the way of a request to another node that answers it, and the way of the answer back, both piece by piece.
 * It must never forward what a node has forwarded, nor change a request but in what belongs to one connection.
 */
import { once } from 'node:events';
import {
  Agent,
  type ClientRequest,
  type IncomingMessage,
  type RequestOptions,
  request as requestOf,
} from 'node:http';
import type { Clock } from '../clock.js';
import { ApiError, invalid } from '../errors.js';
import { limits } from '../limits/index.js';
import { ClientGoneError, type Exchange, type Headers } from './exchange.js';
import { isOwnVia, VIA_NAME } from './request.js';

const METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']);
/** They belong to one connection, or are written anew. */
const NOT_FORWARDED = new Set([
  'connection',
  'expect',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'upgrade',
  'via',
  'x-request-id',
]);
/** This server writes its own, which are the same. */
const NOT_RETURNED = new Set([
  'access-control-allow-origin',
  'access-control-expose-headers',
  'connection',
  'content-length',
  'date',
  'keep-alive',
  'transfer-encoding',
  'uwebsockets',
  'vary',
  'x-request-id',
]);
const WITHOUT_BODY = new Set([204, 304]);
/** Node refuses to send it. */
const UNSENDABLE = new Set(['ERR_INVALID_CHAR', 'ERR_UNESCAPED_CHARACTERS']);

export interface ForwarderOptions {
  readonly clock: Clock;
  /** Told of the node that did not answer, and why: clients are not told where it is. */
  readonly log: (line: string) => void;
}

export class Forwarder {
  /** The other node closes a connection that rests for longer. */
  readonly #agent = new Agent({ keepAlive: true, timeout: limits.forwardIdleMs });
  #origin: string | null = null;
  /** To the node of now. */
  readonly #underWay = new Set<ClientRequest>();

  constructor(readonly options: ForwarderOptions) {}

  /** Where requests go; null: nowhere. What is under way to another node fails: that one does not serve any more. */
  set origin(origin: string | null) {
    if (origin === this.#origin) return;
    this.#origin = origin;
    this.#cut();
  }

  get origin(): string | null {
    return this.#origin;
  }

  /** @throws ApiError `unavailable` where the node gave no answer, `overloaded` where its body finds no room on the way. */
  async forward(exchange: Exchange): Promise<void> {
    const origin = this.#origin;
    if (origin === null || isForwarded(exchange)) throw unavailable('this node does not serve');
    const outgoing = begun(exchange, { origin, agent: this.#agent });
    this.#underWay.add(outgoing);
    outgoing.once('close', () => this.#underWay.delete(outgoing));
    this.#boundConnect(outgoing);
    exchange.onGone(() => outgoing.destroy());
    try {
      const response = await answerOf(outgoing, exchange);
      await giveBack(response, exchange);
      // Of a body that the other node did not want to the end.
      if (!outgoing.writableEnded) outgoing.destroy();
    } catch (cause) {
      outgoing.destroy();
      if (cause instanceof ApiError || exchange.gone) throw cause;
      if (exchange.answered) exchange.destroy();
      else {
        this.options.log(`the node at ${origin} did not answer: ${(cause as Error).message}`);
        throw unavailable('the node that serves did not answer');
      }
    }
  }

  /** A machine that is gone answers nothing, and the system would try for minutes. */
  #boundConnect(outgoing: ClientRequest): void {
    outgoing.once('socket', (socket) => {
      if (!socket.connecting) return;
      const end = () => socket.connecting && outgoing.destroy(new Error('no connection in time'));
      // A process that was busy for so long has not looked yet whether it was made.
      const late = () => void setImmediate(end);
      const cancel = this.options.clock.after(limits.forwardConnectMs, late);
      socket.once('connect', cancel);
      outgoing.once('close', cancel);
    });
  }

  /** By hand: for a signal Node would watch the end of each request. */
  #cut(): void {
    for (const outgoing of this.#underWay)
      outgoing.destroy(new Error('it does not serve any more'));
  }

  close(): void {
    this.#cut();
    this.#agent.destroy();
  }
}

interface Way {
  readonly origin: string;
  readonly agent: Agent;
}

/** The head is sent. @throws ApiError for what cannot be sent. */
function begun(exchange: Exchange, { origin, agent }: Way): ClientRequest {
  const { method, path, query } = exchange;
  if (!METHODS.has(method)) throw new ApiError('methodNotAllowed', { method, path });
  const { hostname, port } = new URL(origin);
  const target = query === '' ? path : `${path}?${query}`;
  const host = hostname.replace(/^\[|\]$/g, '');
  const options: RequestOptions = { host, port, method, path: target, agent };
  return sendable(() => requestOf(Object.assign(options, { headers: forwardedHeaders(exchange) })));
}

/** @throws ApiError for a head that Node refuses to send. */
export function sendable<Sent>(begin: () => Sent): Sent {
  try {
    return begin();
  } catch (cause) {
    if (!UNSENDABLE.has((cause as NodeJS.ErrnoException).code ?? '')) throw cause;
    throw invalid('the path or a header holds a character that is not allowed there');
  }
}

/** Name and value alternate. */
export function forwardedHeaders(exchange: Exchange): string[] {
  const { headers, declaredBytes, requestId } = exchange;
  const kept: string[] = [];
  for (let i = 0; i < headers.length; i += 2) {
    const [name = '', value = ''] = [headers[i], headers[i + 1]];
    if (!NOT_FORWARDED.has(name)) kept.push(name, Buffer.from(value).toString('latin1'));
  }
  const via = exchange.header('via');
  const own = `1.1 ${VIA_NAME}`;
  kept.push('via', via === undefined ? own : `${via}, ${own}`, 'x-request-id', requestId);
  if (declaredBytes === 0 && exchange.header('content-length') === undefined) {
    kept.push('content-length', '0');
  }
  return kept;
}

export function isForwarded(exchange: Exchange): boolean {
  return isOwnVia(exchange.header('via'));
}

/** Sends the body until it has ended, or the answer is there. */
async function answerOf(outgoing: ClientRequest, exchange: Exchange): Promise<IncomingMessage> {
  const answer = once(outgoing, 'response') as Promise<[IncomingMessage]>;
  // A failure after the answer is told by the answer.
  outgoing.on('error', () => {});
  const sent = send(outgoing, exchange);
  sent.catch((cause: Error) => outgoing.destroy(cause));
  const [response] = await answer;
  return response;
}

async function send(outgoing: ClientRequest, exchange: Exchange): Promise<void> {
  if (exchange.declaredBytes === 0) return void outgoing.end();
  // The head reaches the other node, which may refuse the request, before the first byte of the body.
  outgoing.flushHeaders();
  let closed: AbortSignal | null = null;
  let bytes = 0;
  for (;;) {
    const piece = await exchange.nextOfBody();
    if (piece === null || exchange.answered) break;
    bytes += piece.length;
    // Other nodes may be slow to read, and any number of clients quick to send. A small piece is never refused.
    if (piece.length > limits.bodyAheadBytesMax) exchange.hold(piece.length);
    if (!outgoing.write(piece)) {
      closed ??= closeOf(outgoing);
      await once(outgoing, 'drain', { signal: closed });
    }
    exchange.hold(0);
  }
  // An answer that came first has thrown the rest away. The other node waits for it, and would take it from the request behind
  // this one: a request that is not ended never gives its connection back.
  if (bytes === (exchange.declaredBytes ?? bytes) && !exchange.answered) outgoing.end();
}

/** Aborted when it is closed. */
function closeOf(outgoing: ClientRequest): AbortSignal {
  const closed = new AbortController();
  if (outgoing.closed) closed.abort();
  else outgoing.once('close', () => closed.abort());
  return closed.signal;
}

async function giveBack(response: IncomingMessage, exchange: Exchange): Promise<void> {
  const status = response.statusCode ?? 502;
  const length = response.headers['content-length'];
  const headers = returnedHeaders(response);
  if (exchange.method === 'HEAD') {
    if (length !== undefined) headers['content-length'] = length;
    exchange.openStream(status, headers);
    response.resume();
  } else if (WITHOUT_BODY.has(status)) {
    exchange.reply(status, '', headers);
    response.resume();
  } else if (Number(length) <= limits.replyWholeBytesMax) {
    const body = await wholeOf(response);
    if (!exchange.gone) exchange.reply(status, body, headers);
  } else await stream(response, exchange, headers);
}

/** By its events: an iterator watches the end once more. @throws Error where it ends early. */
function wholeOf(response: IncomingMessage): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const pieces: Buffer[] = [];
    response.on('data', (piece: Buffer) => pieces.push(piece));
    response.once('end', () => resolve(Buffer.concat(pieces)));
    response.once('error', reject);
    response.once('close', () => reject(new Error('the answer was cut')));
  });
}

async function stream(
  response: IncomingMessage,
  exchange: Exchange,
  headers: Headers,
): Promise<void> {
  const sink = exchange.openStream(response.statusCode ?? 502, headers);
  for await (const piece of response) {
    if (exchange.gone) throw new ClientGoneError('the client left');
    if (!sink.write(piece as Buffer)) await sink.drained();
  }
  sink.end();
}

function returnedHeaders({ headers }: IncomingMessage): Record<string, string> {
  const kept: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) {
    if (value === undefined || NOT_RETURNED.has(name)) continue;
    kept[name] = Buffer.from(String(value), 'latin1').toString();
  }
  return kept;
}

/** Clients ask again when a node may have taken over. */
export function unavailable(error: string): ApiError {
  return new ApiError('unavailable', { error }, { retryAfterMs: limits.takeOverRetryMs });
}
