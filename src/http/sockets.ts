/**
 * Owns the WebSockets of routes that have one: who may open one, its turns one after the other, and its end.
 * It must never run two turns of one connection at a time, nor hold more messages than an account may.
 */
import type * as Uws from 'uWebSockets.js';
import type { Clock } from '../clock.js';
import { ApiError, invalid } from '../errors.js';
import { limits } from '../limits/index.js';
import { webSocketError } from '../protocol/responses-events.js';
import { type BodyBudget, overloaded } from './body.js';
import type { Exchange, Wire } from './exchange.js';
import { type FarSocket, farSocket } from './far-socket.js';
import { headerOf, type RequestHead } from './request.js';
import type { SocketCheck } from './router.js';
import { utf8 } from './sink.js';
import { SocketReply } from './socket-reply.js';
import { TurnMemory } from './turn-memory.js';

/** What the server does for its sockets. */
export interface SocketEdge {
  readonly clock: Clock;
  readonly bodies: BodyBudget;
  readonly closing: boolean;
  newRequestId(): string;
  /** Takes a message to the handler of its route, as if it were a request of its own. */
  begin(wire: Wire, head: RequestHead, prepare: (exchange: Exchange) => void): void;
  /** Answers the request that asks for a socket, unless who opens it has. */
  answer(res: Uws.HttpResponse, req: Uws.HttpRequest, opens: OpensSocket): void;
}

export interface OpensSocket {
  /** Throws for a client that may not have one. */
  here(exchange: Exchange): void;
  /** The same. @param origin of the node that serves the user. */
  elsewhere(exchange: Exchange, origin: string): void;
}

/** Where the node listens that serves a WebSocket; null: this one does, or none is known. */
export type OriginOf = (head: Pick<RequestHead, 'path' | 'headers'>) => string | null;

type Socket = Uws.WebSocket<Opening>;

/** What a socket knows from the request that opened it. */
interface Opening {
  readonly account: string;
  readonly head: Pick<RequestHead, 'path' | 'query' | 'headers' | 'isForwarded'>;
  readonly check: SocketCheck;
  /** The half of another node, which serves the user. */
  readonly far: FarSocket | null;
  turns: Turns | null;
}

/** What becomes of the messages of a connection. */
type Turns = Pick<SocketTurns, 'take' | 'writable' | 'lose'> & {
  leave(code: number, reason: string): void;
};

/** The account of a connection that another node serves. No user has this name. */
const FAR = '';
const NORMAL_END = 1000;
const GOING_AWAY = 1001;
const REFUSED = 1008;
/** Of a key that is revoked, or whose account is suspended. */
const NOT_LET_IN: ReadonlySet<number> = new Set([401, 403]);

export class Sockets {
  /** Those that are open, by account. */
  readonly #open = new Map<string, number>();
  readonly #all = new Map<Turns, string>();
  readonly #far = new Map<FarSocket, Opening['head']>();
  #count = 0;

  constructor(readonly edge: SocketEdge) {}

  /** @param check throws for a request that may not open one. */
  behavior(check: SocketCheck): Uws.WebSocketBehavior<Opening> {
    return {
      maxPayloadLength: limits.socketMessageBytesMax,
      maxBackpressure: 2 * limits.streamBacklogBytesHardMax + limits.bodyBytesMax,
      closeOnBackpressureLimit: 1,
      idleTimeout: limits.socketSilentS,
      sendPingsAutomatically: true,
      upgrade: (res, req, context) => this.#upgrade(res, req, context, check),
      open: (socket) => this.#opened(socket),
      message: (socket, message) => socket.getUserData().turns?.take(message),
      drain: (socket) => socket.getUserData().turns?.writable(),
      close: (socket) => this.#closed(socket.getUserData()),
    };
  }

  /** Each of these accounts ends when its turn is over. */
  drain(reason: string, ends: (account: string) => boolean = () => true): void {
    for (const [turns, account] of this.#all) if (ends(account)) turns.leave(GOING_AWAY, reason);
  }

  /** A node that is gone, or was stopped, does not end its half. */
  moved(originOf: OriginOf): void {
    for (const [far, head] of this.#far) if (originOf(head) !== far.origin) far.cut();
  }

  #upgrade(
    res: Uws.HttpResponse,
    req: Uws.HttpRequest,
    context: Uws.us_socket_context_t,
    check: SocketCheck,
  ): void {
    const key = req.getHeader('sec-websocket-key');
    const protocol = req.getHeader('sec-websocket-protocol');
    const extensions = req.getHeader('sec-websocket-extensions');
    const upgrade = (exchange: Exchange, account: string, far: FarSocket | null) => {
      const { path, query, headers, isForwarded } = exchange;
      const head = { path, query, headers, isForwarded };
      const opening = { account, head, check, far, turns: null };
      this.#count += 1;
      this.#open.set(account, (this.#open.get(account) ?? 0) + 1);
      exchange.upgraded();
      res.upgrade<Opening>(opening, key, protocol, extensions, context);
    };
    this.edge.answer(res, req, {
      here: (exchange) => {
        check(exchange);
        const account = exchange.note.account ?? '';
        this.#assertRoom(account);
        upgrade(exchange, account, null);
      },
      elsewhere: (exchange, origin) => {
        this.#assertRoom(null);
        upgrade(exchange, FAR, farSocket(exchange, origin));
      },
    });
  }

  /** @throws ApiError `overloaded`. */
  #assertRoom(account: string | null): void {
    // The other node counts those of the account.
    const own = account === null ? 0 : (this.#open.get(account) ?? 0);
    if (this.#count >= limits.socketsMax || own >= limits.socketsPerAccountMax) throw overloaded();
  }

  #opened(socket: Socket): void {
    const opening = socket.getUserData();
    const { far, account } = opening;
    opening.turns = far ?? new SocketTurns(socket, opening, this.edge);
    this.#all.set(opening.turns, account);
    if (far !== null) this.#far.set(far, opening.head);
    far?.open(socket);
    if (this.edge.closing) opening.turns.leave(GOING_AWAY, 'the service is stopping');
  }

  #closed({ account, turns, far }: Opening): void {
    if (far !== null) this.#far.delete(far);
    this.#count -= 1;
    const own = (this.#open.get(account) ?? 0) - 1;
    if (own > 0) this.#open.set(account, own);
    else this.#open.delete(account);
    if (turns === null) return;
    this.#all.delete(turns);
    turns.lose();
  }
}

/** How a connection is to end, and what its client is told as a message before. */
interface Leaving {
  readonly code: number;
  readonly reason: string;
  readonly word?: string;
}

const KEY_ENDED: Leaving = { code: REFUSED, reason: 'the key is not let in any more' };

/** One connection. */
class SocketTurns {
  readonly #memory: TurnMemory;
  #waiting: ArrayBuffer[] = [];
  #running: SocketReply | null = null;
  /** How it is to end once nothing runs. */
  #leaving: Leaving | null = null;
  #gone = false;
  /** What the library still holds of the answer to the turn that is over; 0: its client has read it. */
  #unreadBytes = 0;
  #cancelUnread: () => void = () => {};
  #cancelAge: () => void;
  #cancelIdle: () => void = () => {};
  #cancelCheck: () => void = () => {};

  constructor(
    readonly socket: Socket,
    readonly opening: Opening,
    readonly edge: SocketEdge,
  ) {
    this.#memory = new TurnMemory(edge.bodies);
    this.#cancelAge = edge.clock.after(limits.socketAgeMsMax, () => this.#aged());
    this.#rest();
    this.#watchKey();
  }

  /** @param message is the library's memory. */
  take(message: ArrayBuffer): void {
    if (this.#leaving !== null || this.#gone) return;
    if (this.#running === null) this.#begin(message);
    else this.#wait(message);
  }

  writable(): void {
    this.#running?.writable();
    if (this.#unreadBytes === 0 || !this.#isRead()) return;
    this.#cancelUnread();
    this.#countUnread(0);
    this.#next();
  }

  lose(): void {
    this.#gone = true;
    this.#cancelAge();
    this.#cancelIdle();
    this.#cancelCheck();
    this.#cancelUnread();
    this.#countUnread(0);
    for (const message of this.#waiting) this.#hold(-message.byteLength);
    this.#waiting = [];
    this.#memory.close();
    this.#running?.lose();
  }

  leave(code: number, reason: string, word?: string): void {
    this.#leaving ??= word === undefined ? { code, reason } : { code, reason, word };
    if (this.#running === null && !this.#gone) this.#end(this.#leaving);
  }

  #end({ code, reason, word }: Leaving): void {
    if (word !== undefined) this.socket.send(utf8(word), false);
    this.socket.end(code, reason);
  }

  #begin(message: ArrayBuffer): void {
    this.#cancelIdle();
    const reply = new SocketReply(this.socket, message);
    this.#running = reply;
    const { path, query, headers, isForwarded } = this.opening.head;
    const requestId = this.edge.newRequestId();
    const own = { method: 'POST', requestId, origin: null, refusal: null };
    const shape = { path, query, headers, isForwarded, ...own };
    this.edge.begin(reply, { ...shape, bodyBytes: message.byteLength }, (exchange) => {
      exchange.memory = this.#memory;
      exchange.onOver = () => {
        if (NOT_LET_IN.has(exchange.report().status)) {
          this.#leaving ??= KEY_ENDED;
        }
        // A turn that is over at once must not begin the next one inside of itself.
        setImmediate(() => this.#over());
      };
    });
  }

  /** Answers that nobody reads must not pile up: until the client has read this one, its next message waits. */
  #over(): void {
    this.#memory.over();
    if (this.#gone || this.#isRead()) {
      this.#next();
      return;
    }
    // Nobody reads it: until then it is as much the account's as an answer over HTTP.
    this.#countUnread(this.socket.getBufferedAmount());
    const cut = () => this.socket.close();
    this.#cancelUnread = this.edge.clock.after(limits.streamPausedMsMax, cut);
  }

  #countUnread(bytes: number): void {
    this.#hold(bytes - this.#unreadBytes);
    this.#unreadBytes = bytes;
  }

  #isRead(): boolean {
    return this.socket.getBufferedAmount() <= limits.streamBacklogBytesMax;
  }

  #next(): void {
    this.#running = null;
    if (this.#gone) return;
    const message = this.#waiting.shift();
    if (message !== undefined) {
      this.#hold(-message.byteLength);
      this.#begin(message);
    } else if (this.#leaving !== null) this.#end(this.#leaving);
    else this.#rest();
  }

  #wait(message: ArrayBuffer): void {
    const { account } = this.opening;
    const hasRoom = this.edge.bodies.hasRoom(account, message.byteLength);
    if (this.#waiting.length >= limits.socketWaitingMax || !hasRoom) {
      this.socket.end(REFUSED, 'too many messages wait for the answer before them');
      return;
    }
    this.#hold(message.byteLength);
    this.#waiting.push(message.slice(0));
  }

  #hold(bytes: number): void {
    this.edge.bodies.take(this.opening.account, bytes);
  }

  #rest(): void {
    const end = () => this.leave(NORMAL_END, 'no message came for a while');
    this.#cancelIdle = this.edge.clock.after(limits.socketIdleMsMax, end);
  }

  /** Whose key has ended sends no message: what the connection remembers must not wait for one. */
  #watchKey(): void {
    this.#cancelCheck = this.edge.clock.after(limits.socketKeyCheckMs, () => {
      if (this.#isLetIn()) this.#watchKey();
      else this.leave(KEY_ENDED.code, KEY_ENDED.reason);
    });
  }

  #isLetIn(): boolean {
    const { headers } = this.opening.head;
    try {
      this.opening.check({
        headers,
        header: (name) => headerOf(headers, name),
        note: { account: null },
      });
      return true;
    } catch (cause) {
      // A store that cannot be read now says nothing about the key.
      return !(cause instanceof ApiError && NOT_LET_IN.has(cause.status));
    }
  }

  #aged(): void {
    const code = 'websocket_connection_limit_reached';
    const minutes = limits.socketAgeMsMax / 60_000;
    const message = `a WebSocket ends after ${minutes} minutes: open another one`;
    const { type } = invalid(message);
    const told = webSocketError(400, { type, code, message }, {});
    this.leave(NORMAL_END, message, JSON.stringify(told));
  }
}
