/**
 * Owns where requests go that another node answers, the heads with which they go, and what a client is told where it does not.
 * It must never forward what a node has forwarded, nor change a request but in what belongs to one connection.
 */
import type { Clock } from '../clock.js';
import { ApiError, invalid } from '../errors.js';
import { limits } from '../limits/index.js';
import { ClientGoneError, type Exchange } from './exchange.js';
import { FarLinks } from './far-links.js';
import { FarRequest } from './far-request.js';
import { VIA_NAME } from './request.js';

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
const ASCII = /^[\x20-\x7e]*$/;
const UNSENDABLE_IN_TARGET = /[^\x21-\xff]/;
const UNSENDABLE_IN_HEADERS = /[^\t\x20-\x7e\x80-\xff]/;

export interface ForwarderOptions {
  readonly clock: Clock;
  /** Told of the node that did not answer, and why: clients are not told where it is. */
  readonly log: (line: string) => void;
}

export class Forwarder {
  /** To the node of now. */
  #links: FarLinks | null = null;
  #origin: string | null = null;
  readonly #underWay = new Set<FarRequest>();

  constructor(readonly options: ForwarderOptions) {}

  /** Where requests go; null: nowhere. What is under way to another node fails: that one does not serve any more. */
  set origin(origin: string | null) {
    if (origin === this.#origin) return;
    this.#cut();
    this.#origin = origin;
    this.#links = origin === null ? null : new FarLinks(origin, this.options.clock);
  }

  get origin(): string | null {
    return this.#origin;
  }

  /** @throws ApiError `unavailable` where the node gave no answer, `overloaded` where its body finds no room on the way. */
  async forward(exchange: Exchange): Promise<void> {
    const [origin, links] = [this.#origin, this.#links];
    if (links === null || exchange.isForwarded) throw unavailable('this node does not serve');
    const request = new FarRequest(exchange, headOf(exchange));
    this.#underWay.add(request);
    const answered = request.send(links);
    exchange.onGone(() => request.fail(new ClientGoneError('the client left')));
    try {
      await answered;
    } catch (cause) {
      if (cause instanceof ApiError || exchange.gone) throw cause;
      if (exchange.answered) exchange.destroy();
      else {
        this.options.log(`the node at ${origin} did not answer: ${(cause as Error).message}`);
        throw unavailable('the node that serves did not answer');
      }
    } finally {
      this.#underWay.delete(request);
    }
  }

  #cut(): void {
    for (const request of this.#underWay) request.fail(new Error('it does not serve any more'));
    this.#links?.close();
  }

  close(): void {
    this.#cut();
  }
}

/** @throws ApiError for what cannot be sent. */
function headOf(exchange: Exchange): string {
  const { method, path, query } = exchange;
  if (!METHODS.has(method)) throw new ApiError('methodNotAllowed', { method, path });
  const target = query === '' ? path : `${path}?${query}`;
  if (UNSENDABLE_IN_TARGET.test(target)) throw unsendable();
  let head = `${method} ${target} HTTP/1.1\r\n`;
  const headers = forwardedHeaders(exchange);
  for (let at = 0; at < headers.length; at += 2) head += `${headers[at]}: ${headers[at + 1]}\r\n`;
  // Of all at once: no name or value has an end of line that is ours.
  if (UNSENDABLE_IN_HEADERS.test(headers.join(''))) throw unsendable();
  return `${head}\r\n`;
}

export function unsendable(): ApiError {
  return invalid('the path or a header holds a character that is not allowed there');
}

/** Name and value alternate. */
export function forwardedHeaders(exchange: Exchange): string[] {
  const { headers, declaredBytes, requestId } = exchange;
  const kept: string[] = [];
  for (let i = 0; i < headers.length; i += 2) {
    const [name = '', value = ''] = [headers[i], headers[i + 1]];
    if (!NOT_FORWARDED.has(name)) kept.push(name, inBytes(value));
  }
  const via = exchange.header('via');
  const own = `1.1 ${VIA_NAME}`;
  kept.push('via', via === undefined ? own : `${via}, ${own}`, 'x-request-id', requestId);
  // That of a message of a WebSocket stands nowhere, and a request without a body need not say so.
  if (declaredBytes !== null && exchange.header('content-length') === undefined) {
    kept.push('content-length', String(declaredBytes));
  }
  return kept;
}

/** As a text in which each letter is one byte. */
function inBytes(value: string): string {
  return ASCII.test(value) ? value : Buffer.from(value).toString('latin1');
}

/** Clients ask again when a node may have taken over. */
export function unavailable(error: string): ApiError {
  return new ApiError('unavailable', { error }, { retryAfterMs: limits.takeOverRetryMs });
}
