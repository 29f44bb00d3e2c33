/**
 * Owns one request and its response, and hides the HTTP library from everything behind it.
 * It must never touch the library's response after its end or abort, nor its request after the first call returned.
 */
import type { HttpResponse } from 'uWebSockets.js';
import type { Clock } from '../clock.js';
import { ApiError, fromErrorValue, toErrorValue } from '../errors.js';
import { limits } from '../limits/index.js';
import type { RequestNote, RequestReport, RouteName } from '../telemetry/report.js';
import { Body, type BodyBudget, ClientGoneError, overloaded } from './body.js';
import { errorReply, type Headers, headText } from './head.js';
import type { RequestHead } from './request.js';
import { type ByteSink, ResponseSink, utf8 } from './sink.js';

export { ClientGoneError } from './body.js';
export type { Headers } from './head.js';
export type { ByteSink } from './sink.js';

type State = 'open' | 'streaming' | 'done';

/** What a client gets that left before it had a status: nobody sees it but the log. */
const CLIENT_LEFT_STATUS = 499;

/** What the server lends to its exchanges. */
export interface Edge {
  readonly clock: Clock;
  readonly bodies: BodyBudget;
  /** True once the server drains: connections end with their current answer. */
  readonly closing: boolean;
  finished(exchange: Exchange): void;
  /** A failure with nobody left to tell. */
  failed(error: unknown, exchange: Exchange): void;
}

export class Exchange {
  readonly #res: HttpResponse;
  readonly #edge: Edge;
  readonly #head: RequestHead;
  readonly #edgeHeaders: string;
  readonly #body: Body | null;
  readonly #beganMs: number;
  readonly note: RequestNote = {
    account: null,
    chat: null,
    firstContentMs: null,
    errorType: null,
  };
  /** Set by the server when it has found one. */
  route: RouteName | null = null;
  /** Set by the server when the handler is done. */
  handled = false;
  #status = CLIENT_LEFT_STATUS;
  #state: State = 'open';
  #gone = false;
  /** The library corks the first, synchronous part of a handler by itself. */
  #corked = true;
  #onGone: (() => void)[] | null = null;
  /** For a stream that can say why it ends early; without it `stop` can only cut the connection. */
  onStop: ((error: ApiError) => void) | null = null;
  #sink: ResponseSink | null = null;
  #holdsBytes = 0;

  constructor(res: HttpResponse, head: RequestHead, edge: Edge, edgeHeaders: string) {
    this.#res = res;
    this.#head = head;
    this.#edge = edge;
    this.#edgeHeaders = edgeHeaders;
    this.#beganMs = edge.clock.monotonicMs();
    this.#body = head.bodyBytes === 0 ? null : new Body(head.bodyBytes, res, edge.bodies);
  }

  /**
   * The server calls it when the handler's first, synchronous part is over. Until then nothing can happen to the
   * connection, and what was answered by then needs none of these callbacks, which cost more than the answer.
   */
  settle(): void {
    this.#corked = false;
    if (!this.#live()) return;
    this.#res.onAborted(() => this.#abort());
    const body = this.#body;
    if (body) this.#res.onData((chunk, last) => body.push(chunk, last));
  }

  get method(): string {
    return this.#head.method;
  }

  get path(): string {
    return this.#head.path;
  }

  get query(): string {
    return this.#head.query;
  }

  get requestId(): string {
    return this.#head.requestId;
  }

  /** Bytes of the peer's IP address, 4 or 16; asked for before anything is awaited. */
  peerAddress(): Uint8Array {
    return new Uint8Array(this.#res.getRemoteAddress());
  }

  /** The first header of that (lower case) name. */
  header(name: string): string | undefined {
    const { headers } = this.#head;
    for (let i = 0; i < headers.length; i += 2) if (headers[i] === name) return headers[i + 1];
    return undefined;
  }

  /** The client left before it had its whole answer. */
  get gone(): boolean {
    return this.#gone;
  }

  /** True once a status was chosen; a second answer is a bug. */
  get answered(): boolean {
    return this.#state !== 'open';
  }

  onGone(task: () => void): void {
    if (this.#gone) {
      task();
      return;
    }
    this.#onGone ??= [];
    this.#onGone.push(task);
  }

  /** The service ends: the client is told so in the form its answer has, and for the handler it has left. */
  stop(error: ApiError): void {
    if (!this.#live()) return;
    this.note.errorType = error.type;
    if (this.#state === 'open') this.replyError(error);
    else this.onStop?.(error);
    if (this.#live()) this.destroy();
    else this.#leave();
  }

  /** The first text or tool call is on its way to the client. */
  noteContent(): void {
    this.note.firstContentMs ??= this.#edge.clock.monotonicMs() - this.#beganMs;
  }

  /** The client has its answer, or has left. */
  get ended(): boolean {
    return this.#state === 'done';
  }

  report(): RequestReport {
    const durationMs = this.#edge.clock.monotonicMs() - this.#beganMs;
    const { requestId, route, note } = this;
    return { type: 'request', requestId, route, status: this.#status, durationMs, note };
  }

  /** Rejects with the 413 of the catalogue, or with `ClientGoneError`. */
  async body(bytesMax: number = limits.bodyBytesMax): Promise<Buffer> {
    if (this.#gone) throw new ClientGoneError('the client left');
    if (this.#body === null) return Buffer.alloc(0);
    const bytes = await this.#body.read(bytesMax, this.note.account);
    this.#holdAnyhow(bytes.length);
    return bytes;
  }

  /**
   * Sets how many bytes of memory this request holds beyond what waits in its socket, until it is over.
   * @throws ApiError `overloaded` where its account or all of them would hold too much.
   */
  hold(bytes: number): void {
    const more = bytes - this.#holdsBytes;
    if (more > 0 && !this.#edge.bodies.hasRoom(this.note.account, more)) throw overloaded();
    this.#holdAnyhow(bytes);
  }

  #holdAnyhow(bytes: number): void {
    this.#edge.bodies.take(this.note.account, bytes - this.#holdsBytes);
    this.#holdsBytes = bytes;
  }

  /** The server calls it when the request is over: the client has left or has its answer, and the handler is done. */
  release(): void {
    this.#holdAnyhow(0);
  }

  /** The body piece by piece, null after the last one. Rejects with `ClientGoneError`; nobody counts for the caller. */
  nextOfBody(): Promise<Buffer | null> {
    if (this.#gone) return Promise.reject(new ClientGoneError('the client left'));
    return this.#body?.next() ?? Promise.resolve(null);
  }

  /** Content-Length; null for a chunked body, whose end nobody knows. */
  get declaredBytes(): number | null {
    return this.#head.bodyBytes;
  }

  /** Content-Type is JSON unless `headers` says otherwise. */
  reply(status: number, body: string | Uint8Array, headers?: Headers): void {
    this.#answer();
    const head = headText(status, this.requestId, this.#edgeHeaders, headers);
    if (this.#gone) return;
    this.#status = status;
    const unread = this.#body?.remainingBytes ?? 0;
    if (unread > limits.bodyDiscardBytesMax) {
      this.#replyAndLinger(head, body);
      return;
    }
    if (unread > 0) this.#body?.discard();
    if (body.length > limits.replyWholeBytesMax && this.method !== 'HEAD') {
      this.#endInPieces(head, typeof body === 'string' ? Buffer.from(body) : body);
    } else this.#end(head, status === 204 ? null : body);
  }

  replyJson(status: number, value: unknown, headers?: Headers): void {
    this.reply(status, JSON.stringify(value), headers);
  }

  /** Any thrown value becomes an answer; what is no error of the catalogue becomes a 500 without a stack. */
  replyError(cause: unknown, extraHeaders?: Headers): void {
    const error = cause instanceof ApiError ? cause : fromErrorValue(toErrorValue(cause));
    const { status, headers, body } = errorReply(error);
    this.note.errorType = error.type;
    this.reply(status, body, { ...headers, ...extraHeaders });
  }

  /** Status and headers leave with the first write. */
  openStream(status: number, headers?: Headers): ByteSink {
    this.#answer();
    const head = headText(status, this.requestId, this.#edgeHeaders, headers);
    this.#state = 'streaming';
    if (!this.#gone) this.#status = status;
    if (!this.#gone) this.#body?.discard();
    if (this.method === 'HEAD' && !this.#gone) this.#end(head, null);
    this.#sink = new ResponseSink(this.#res, head, this.#live(), {
      finish: () => this.#finish(),
      cut: () => this.destroy(),
    });
    return this.#sink;
  }

  /** Cuts the connection: the only honest end of a stream that broke. */
  destroy(): void {
    if (!this.#live()) return;
    this.#res.close();
    // In the synchronous part of the handler the library has no callback of ours to call yet.
    this.#abort();
  }

  #cork(task: () => void): void {
    if (this.#corked) task();
    else this.#res.cork(task);
  }

  #live(): boolean {
    return !this.#gone && this.#state !== 'done';
  }

  #answer(): void {
    if (this.#state !== 'open') throw new Error(`${this.method} ${this.path} was answered twice`);
  }

  /** `null`: an answer that has no body and no length. */
  #end(head: string, body: string | Uint8Array | null): void {
    const res = this.#res;
    // What stands behind a chunked body may be a trailer that the library takes for a request: it is never read.
    const close = this.#edge.closing || this.#head.bodyBytes === null;
    this.#finish();
    this.#cork(() => {
      if (body !== null && this.method !== 'HEAD') {
        res.writeStatus(head);
        res.end(utf8(body), close);
        return;
      }
      // The library takes a length without bytes for an answer that is not over, so the length is written here.
      const length = body === null ? '' : `\r\ncontent-length: ${Buffer.byteLength(body)}`;
      res.writeStatus(head + length);
      res.endWithoutBody();
    });
  }

  /** As fast as the client reads: a large reply counts until all of it is in the hands of the kernel. */
  #endInPieces(head: string, body: Uint8Array): void {
    const res = this.#res;
    const close = this.#edge.closing || this.#head.bodyBytes === null;
    this.#state = 'streaming';
    this.#holdAnyhow(this.#holdsBytes + body.byteLength);
    const begins = res.getWriteOffset();
    let at = 0;
    const send = (): void => {
      for (let fits = true; fits && this.#live(); ) {
        const piece = body.slice(at, at + limits.replyPieceBytes);
        if (close) {
          at += piece.byteLength;
          fits = res.write(piece);
          if (at === body.byteLength) this.#endWith(() => res.end(undefined, true));
          continue;
        }
        // What the kernel does not take is not kept by the library: it is sent again.
        const [ok, done] = res.tryEnd(piece, body.byteLength);
        fits = ok;
        if (done) this.#finish();
        else at = res.getWriteOffset() - begins;
      }
    };
    res.onWritable((offset) => {
      if (!close) at = offset - begins;
      if (this.#live()) this.#cork(send);
      return true;
    });
    this.#cork(() => {
      res.writeStatus(head);
      send();
    });
  }

  #endWith(end: () => void): void {
    this.#finish();
    end();
  }

  /**
   * Answers a client that is still sending more than we care to read. Closing at once would reset the connection and
   * could destroy the answer on its way, and the library closes at once; so the answer is written as one raw
   * text, which leaves the response open, and the connection is cut when the client is done or out of time.
   */
  #replyAndLinger(head: string, body: string | Uint8Array): void {
    const res = this.#res;
    const text = typeof body === 'string' ? body : Buffer.from(body).toString('utf8');
    // The library ends a status line with CRLF: white space after JSON, counted in the length.
    const length = Buffer.byteLength(text) + 2;
    this.#state = 'streaming';
    this.#cork(() => {
      const lines = `${head}\r\nconnection: close\r\ncontent-length: ${length}`;
      res.writeStatus(utf8(`${lines}\r\n\r\n${text}`));
    });
    const cancel = this.#edge.clock.after(limits.lingerMsMax, () => this.destroy());
    this.onGone(cancel);
    this.#body?.discard(() => setImmediate(() => this.destroy()));
  }

  #abort(): void {
    if (this.#state === 'done') return;
    this.#sink?.lose();
    this.#finish();
    this.#leave();
  }

  /** Tells the handler that nobody waits any more. */
  #leave(): void {
    this.#gone = true;
    this.#body?.fail(new ClientGoneError('the client left'));
    const tasks = this.#onGone;
    this.#onGone = null;
    for (const task of tasks ?? []) this.#tell(task);
  }

  /** An exception must not reach the library, where it would end the process. */
  #tell(task: () => void): void {
    try {
      task();
    } catch (error) {
      this.#edge.failed(error, this);
    }
  }

  #finish(): void {
    this.#state = 'done';
    this.#body?.drop();
    this.#edge.finished(this);
  }
}
