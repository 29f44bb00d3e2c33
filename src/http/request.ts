/**
 * Owns the copy of a request's head, and the refusal of heads that two servers could read in two ways.
 * It must never keep the library's request: its memory is taken back when the handler returns.
 */
import { type ApiError, invalid } from '../errors.js';
import { limits } from '../limits/index.js';
import { echoedRequestId } from './head.js';

export interface RequestHead {
  readonly method: string;
  readonly path: string;
  /** Raw, without the question mark. */
  readonly query: string;
  /** Name and value alternate; names are lower case. */
  readonly headers: readonly string[];
  readonly requestId: string;
  /** Content-Length, or null for a chunked body. */
  readonly bodyBytes: number | null;
  readonly origin: string | null;
  /** Whether a node has passed it on. */
  readonly isForwarded: boolean;
  /** The request cannot be read in one way only: answer this and cut the connection. */
  readonly refusal: ApiError | null;
}

/** The part of the HTTP library's request that is copied. */
export interface RequestSource {
  forEach(task: (name: string, value: string) => void): void;
  getCaseSensitiveMethod(): string;
  getUrl(): string;
  getQuery(): string;
}

/** The first header of that (lower case) name. @param headers name and value alternate. */
export function headerOf(headers: readonly string[], name: string): string | undefined {
  for (let i = 0; i < headers.length; i += 2) if (headers[i] === name) return headers[i + 1];
  return undefined;
}

/** For a header that says whose a request is: of two, a program before this one may have meant the other. @throws ApiError */
export function onlyHeaderOf(headers: readonly string[], name: string): string | undefined {
  const count = headers.filter((each, i) => i % 2 === 0 && each === name).length;
  if (count > 1) throw invalid(`${name} is given more than once`);
  return headerOf(headers, name);
}

/** As which a node names itself to the next one. */
export const VIA_NAME = 'preface';

/** Whether a node has forwarded it. */
export function isOwnVia(via: string | undefined): boolean {
  return via?.split(',').some((each) => each.trim().split(' ')[1] === VIA_NAME) ?? false;
}

let collected: string[] = [];
const collect = (name: string, value: string): void => {
  collected.push(name, value);
};

export function copyRequest(source: RequestSource, newRequestId: () => string): RequestHead {
  collected = [];
  source.forEach(collect);
  const headers = collected;
  const framing = new Framing();
  let requestId: string | null = null;
  let origin: string | null = null;
  const path = source.getUrl();
  const query = source.getQuery() ?? '';
  let bytes = path.length + query.length;
  for (let i = 0; i < headers.length; i += 2) {
    const value = headers[i + 1] ?? '';
    bytes += value.length;
    switch (headers[i]) {
      case 'content-length':
        framing.length(value);
        break;
      case 'transfer-encoding':
        framing.coding(value);
        break;
      case 'authorization':
        framing.authorizations += 1;
        break;
      case 'x-api-key':
        framing.apiKeys += 1;
        break;
      case 'host':
        framing.hosts += 1;
        break;
      case 'via':
        framing.isForwarded ||= isOwnVia(value);
        break;
      case 'x-request-id':
        requestId ??= echoedRequestId(value);
        break;
      case 'origin':
        origin = value;
        break;
    }
  }
  return {
    method: source.getCaseSensitiveMethod(),
    path,
    query,
    headers,
    requestId: requestId ?? newRequestId(),
    bodyBytes: framing.bodyBytes,
    origin,
    isForwarded: framing.isForwarded,
    refusal: framing.refusal(headers.length / 2, bytes),
  };
}

/** Of two lengths the library obeys the first and runs the rest of the body as a second request. */
class Framing {
  bodyBytes: number | null = 0;
  authorizations = 0;
  apiKeys = 0;
  hosts = 0;
  isForwarded = false;
  #lengths = 0;
  #codings = 0;
  #fault: string | null = null;

  length(value: string): void {
    this.#lengths += 1;
    this.bodyBytes = Number(value);
    if (!/^\d{1,15}$/.test(value)) this.#fault = 'Content-Length is not a number of bytes';
  }

  coding(value: string): void {
    this.#codings += 1;
    this.bodyBytes = null;
    if (value !== 'chunked') this.#fault = 'Transfer-Encoding must be chunked or absent';
  }

  refusal(headerCount: number, headerBytes: number): ApiError | null {
    if (this.#fault) return invalid(this.#fault);
    if (this.#lengths + this.#codings > 1) {
      return invalid('the length of the body is given more than once');
    }
    if (this.authorizations > 1) return invalid('Authorization is given more than once');
    if (this.apiKeys > 1) return invalid('x-api-key is given more than once');
    if (this.hosts > 1) return invalid('Host is given more than once');
    // The library has a bound of its own, but it only holds for heads that come in more than one packet.
    const { forwardHeaders, forwardHeaderBytes } = limits;
    const bytesMax = limits.headerBytesMax + (this.isForwarded ? forwardHeaderBytes : 0);
    if (headerBytes > bytesMax) {
      return invalid(`path and headers have ${headerBytes} bytes, at most ${bytesMax} are allowed`);
    }
    const countMax = limits.headerCountMax + (this.isForwarded ? forwardHeaders : 0);
    if (headerCount > countMax) {
      return invalid(`${headerCount} headers, at most ${countMax} are allowed`);
    }
    return null;
  }
}
