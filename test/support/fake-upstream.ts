/**
 * Owns an upstream that answers as a test tells it: complete answers, partial ones, refusals, silence.
 * It must never decide anything itself; it keeps every request as it arrived.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { Test } from 'tap';
import type { Fields } from './chat-client.js';

export interface FakeRequest {
  readonly url: string;
  readonly headers: IncomingMessage['headers'];
  readonly body: Fields;
  /** Resolves when the connection of this request is closed. */
  readonly gone: Promise<void>;
}

export type Act = (request: FakeRequest, response: ServerResponse) => void | Promise<void>;

export class FakeUpstream {
  readonly chats: FakeRequest[] = [];
  readonly sockets = new Set<Socket>();
  ownedBy = 'fake';
  /** What its list of models says besides. */
  listed: Fields = {};
  looks = 0;
  /** Answers `GET /models`. */
  lives = true;
  /** Texts that `/tokenize` received, whose tokens are bytes, and the answer of `/props`; null: it has neither route. */
  readonly tokenized: string[] = [];
  props: Fields | null = null;
  /** The answers to the next chats, in order; the last one repeats. */
  acts: Act[] = [answers('hello')];
  readonly #server = createServer((request, response) => void this.#take(request, response));

  static async open(t: Test): Promise<FakeUpstream> {
    const fake = new FakeUpstream();
    fake.#server.on('connection', (socket) => {
      fake.sockets.add(socket);
      socket.on('close', () => fake.sockets.delete(socket));
    });
    await new Promise<void>((resolve) => fake.#server.listen(0, '127.0.0.1', resolve));
    t.teardown(() => fake.close());
    return fake;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}/v1`;
  }

  close(): Promise<void> {
    this.#server.closeAllConnections();
    return new Promise((resolve) => this.#server.close(() => resolve()));
  }

  async #take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const parts: Buffer[] = [];
    const gone = new Promise<void>((resolve) => response.once('close', () => resolve()));
    for await (const part of request) parts.push(part as Buffer);
    if (this.#tellsVocabulary(request.url ?? '', Buffer.concat(parts).toString(), response)) return;
    if (request.method === 'GET') {
      this.looks += 1;
      response.statusCode = this.lives ? 200 : 503;
      response.end(JSON.stringify({ data: [{ id: 'm', owned_by: this.ownedBy, ...this.listed }] }));
      return;
    }
    const body = JSON.parse(Buffer.concat(parts).toString()) as Fields;
    const taken = { url: request.url ?? '', headers: request.headers, body, gone };
    this.chats.push(taken);
    const [act] = this.acts.length > 1 ? this.acts.splice(0, 1) : this.acts;
    await act?.(taken, response);
  }

  #tellsVocabulary(url: string, body: string, response: ServerResponse): boolean {
    if (!['/tokenize', '/props', '/tokenizer_info'].includes(url)) return false;
    if (this.props === null || url === '/tokenizer_info') response.writeHead(404).end();
    else if (url === '/props') response.end(JSON.stringify(this.props));
    else response.end(JSON.stringify({ tokens: this.#tokens(JSON.parse(body) as Fields) }));
    return true;
  }

  #tokens({ content, parse_special }: Fields): number[] {
    const text = String(content);
    this.tokenized.push(text);
    const special = SPECIAL.indexOf(text);
    return parse_special === true && special >= 0 ? [256 + special] : [...Buffer.from(text)];
  }
}

const SPECIAL = ['<|im_start|>', '<|im_end|>'];

const usage = { prompt_tokens: 30, completion_tokens: 5, total_tokens: 35 };

export function chunk(content: string, more: Fields = {}): string {
  return event({ choices: [{ index: 0, delta: { content }, finish_reason: null, ...more }] });
}

export function event(value: unknown): string {
  return `data: ${JSON.stringify(value)}\n\n`;
}

export const finish = event({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] });
export const done = 'data: [DONE]\n\n';

/** A good answer: a stream, or one token with its usage. */
export function answers(text: string, cached = 0): Act {
  return ({ body }, response) => {
    const counted = { ...usage, prompt_tokens_details: { cached_tokens: cached } };
    if (body.stream !== true) {
      response.end(JSON.stringify({ choices: [{ message: { content: text } }], usage: counted }));
      return;
    }
    opens(response);
    response.write(chunk(text));
    response.end(finish + event({ choices: [], usage: counted }) + done);
  };
}

/** Calls the tool of a request that has one, and answers the others. */
export function callsOrAnswers(call: Fields, text: string): Act {
  const answer = answers(text);
  return (request, response) => {
    if (request.body.tools === undefined) return answer(request, response);
    const called = { index: 0, id: 'call-1', type: 'function', function: call };
    opens(response);
    response.write(event({ choices: [{ index: 0, delta: { tool_calls: [called] } }] }));
    const over = { index: 0, delta: {}, finish_reason: 'tool_calls' };
    response.end(event({ choices: [over] }) + event({ choices: [], usage }) + done);
  };
}

export function opens(response: ServerResponse): ServerResponse {
  return response.writeHead(200, { 'content-type': 'text/event-stream' });
}

export function says(status: number, body: unknown, headers: Record<string, string> = {}): Act {
  return (_, response) => {
    response.writeHead(status, headers);
    response.end(typeof body === 'string' ? body : JSON.stringify(body));
  };
}

/** A stream of exactly these bytes; then it ends, is cut, or stays silent. */
export function streams(parts: readonly string[], then: 'end' | 'cut' | 'stall'): Act {
  return (_, response) => {
    opens(response);
    for (const part of parts) response.write(part);
    if (then === 'end') response.end();
    // The bytes must leave before the connection is closed.
    if (then === 'cut') response.write(':\n', () => response.destroy());
  };
}
