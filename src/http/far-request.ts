/**
 * Owns one request to another node and its answer, both piece by piece: what comes from the client goes there, and back.
 * It must never give a connection back on which something of it is still to come or to go.
 */
import { limits } from '../limits/index.js';
import type { ByteSink, Exchange } from './exchange.js';
import { FarAnswer, type FarHead } from './far-answer.js';
import type { FarLinks, Link, LinkUser } from './far-links.js';

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
/** A larger piece is sent as it is: to put the head before it would copy it. */
const JOINED_BYTES_MAX = 16 * 1024;
const CHUNK_END = Buffer.from('\r\n');
const LAST_CHUNK = Buffer.from('0\r\n\r\n');
const ASCII = /^[\x20-\x7e]*$/;

export class FarRequest implements LinkUser {
  readonly #exchange: Exchange;
  readonly #answer: FarAnswer;
  /** Not sent yet; each letter is one byte. */
  #head: string;
  #link: Link | null = null;
  #links: FarLinks | null = null;
  #isSent = false;
  #isOver = false;
  /** The answer of a small body, which is given at once. */
  #whole: Whole | null = null;
  #sink: ByteSink | null = null;
  #tellOver: () => void = () => {};
  #tellFailed: (cause: Error) => void = () => {};

  constructor(exchange: Exchange, head: string) {
    this.#exchange = exchange;
    this.#head = head;
    this.#answer = new FarAnswer(exchange.method === 'HEAD');
  }

  /** Once. Resolves when its answer is given. @throws Error why it could not be, or not to its end. */
  send(links: FarLinks): Promise<void> {
    const over = new Promise<void>((resolve, reject) => {
      this.#tellOver = resolve;
      this.#tellFailed = reject;
    });
    const link = links.take(this);
    this.#links = links;
    this.#link = link;
    if (this.#exchange.declaredBytes === 0) {
      this.#sendHead();
      this.#isSent = true;
    } else this.#sendBody(link).catch((cause: Error) => this.fail(cause));
    return over;
  }

  fail(cause: Error): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#link?.close();
    this.#tellFailed(cause);
  }

  bytes(bytes: Buffer): void {
    const answer = this.#answer;
    const { head } = answer;
    try {
      const pieces = answer.feed(bytes);
      if (head === null && answer.head !== null) this.#begin(answer.head);
      const [first] = pieces;
      if (first !== undefined) this.#pass(pieces.length === 1 ? first : Buffer.concat(pieces));
      if (answer.isOver) this.#end();
    } catch (cause) {
      this.fail(cause as Error);
    }
  }

  ended(): void {
    try {
      this.#answer.end();
      this.#end();
    } catch (cause) {
      this.fail(cause as Error);
    }
  }

  lost(cause: Error): void {
    this.fail(cause);
  }

  // -------------------------------------------------------------- there

  /** The head alone: the other node may refuse the request before the first byte of the body. */
  #sendHead(): void {
    if (this.#isOver || this.#head === '') return;
    const head = Buffer.from(this.#head, 'latin1');
    this.#head = '';
    this.#link?.write(head);
  }

  /** Until it has ended, or the answer is there. */
  async #sendBody(link: Link): Promise<void> {
    const exchange = this.#exchange;
    const { declaredBytes } = exchange;
    // A body that has come with its head goes on with it, too.
    const headAlone = setImmediate(() => this.#sendHead());
    let bytes = 0;
    for (;;) {
      const piece = await exchange.nextOfBody();
      if (piece === null || exchange.answered || this.#isOver) break;
      bytes += piece.length;
      // Other nodes may be slow to read, and any number of clients quick to send. A small piece is never refused.
      if (piece.length > limits.bodyAheadBytesMax) exchange.hold(piece.length);
      if (!this.#write(link, piece)) await link.drained();
      if (this.#isOver) return;
      exchange.hold(0);
    }
    clearImmediate(headAlone);
    // An answer that came first has thrown the rest away. The other node waits for it, and would take it from the request behind
    // this one: a request that is not ended never gives its connection back.
    if (bytes !== (declaredBytes ?? bytes) || exchange.answered || this.#isOver) return;
    this.#sendHead();
    if (declaredBytes === null) link.write(LAST_CHUNK);
    this.#isSent = true;
  }

  #write(link: Link, piece: Buffer): boolean {
    const isChunk = this.#exchange.declaredBytes === null;
    const before = isChunk ? `${this.#head}${piece.length.toString(16)}\r\n` : this.#head;
    const bytes = before.length + piece.length;
    if (bytes <= JOINED_BYTES_MAX && before !== '') {
      const joined = Buffer.allocUnsafe(bytes + (isChunk ? 2 : 0));
      joined.write(before, 'latin1');
      joined.set(piece, before.length);
      if (isChunk) joined.write('\r\n', bytes, 'latin1');
      this.#head = '';
      return link.write(joined);
    }
    this.#head = '';
    if (before !== '') link.write(Buffer.from(before, 'latin1'));
    const takesMore = link.write(piece);
    return isChunk ? link.write(CHUNK_END) : takesMore;
  }

  // --------------------------------------------------------------- back

  #begin(head: FarHead): void {
    const { status, bodyBytes } = head;
    const exchange = this.#exchange;
    const headers = returnedHeaders(head);
    if (exchange.method === 'HEAD') {
      if (bodyBytes !== null) headers['content-length'] = String(bodyBytes);
      exchange.openStream(status, headers);
    } else if (WITHOUT_BODY.has(status)) exchange.reply(status, '', headers);
    else if (bodyBytes !== null && bodyBytes <= limits.replyWholeBytesMax)
      this.#whole = new Whole(head, headers);
    else this.#sink = exchange.openStream(status, headers);
  }

  /** @param piece of the body; its memory is that of the next one. */
  #pass(piece: Buffer): void {
    this.#whole?.add(piece);
    if (this.#sink === null || this.#sink.write(piece)) return;
    this.#link?.pause();
    void this.#sink.drained().then(() => {
      if (!this.#isOver) this.#link?.resume();
    });
  }

  #end(): void {
    if (this.#isOver) return;
    const { head, headers, body } = this.#whole ?? {};
    if (head !== undefined) this.#exchange.reply(head.status, body ?? '', headers);
    this.#sink?.end();
    this.#isOver = true;
    // Of a body that the other node did not want to the end, the rest is still to be sent.
    if (this.#link !== null)
      this.#links?.release(this.#link, this.#isSent && this.#answer.keepsOpen);
    this.#tellOver();
  }
}

/** A small answer as it comes. */
class Whole {
  body: Buffer | null = null;
  #bytes = 0;

  constructor(
    readonly head: FarHead,
    readonly headers: Record<string, string>,
  ) {}

  /** One that has come at once is given from the memory to which it came. */
  add(piece: Buffer): void {
    const bytes = this.head.bodyBytes ?? 0;
    if (piece.length === bytes) this.body = piece;
    else {
      this.body ??= Buffer.allocUnsafe(bytes);
      this.body.set(piece, this.#bytes);
      this.#bytes += piece.length;
    }
  }
}

function returnedHeaders({ headers }: FarHead): Record<string, string> {
  const kept: Record<string, string> = {};
  for (let at = 0; at < headers.length; at += 2) {
    const [name = '', value = ''] = [headers[at], headers[at + 1]];
    if (NOT_RETURNED.has(name)) continue;
    const text = ASCII.test(value) ? value : Buffer.from(value, 'latin1').toString();
    kept[name] = kept[name] === undefined ? text : `${kept[name]}, ${text}`;
  }
  return kept;
}
