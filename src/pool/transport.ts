/**
 * Owns the two ways messages travel, a thread's port and a process's pipe, behind one small interface.
 * It must never look into a message: `messages.ts` owns the contents.
 */
import type { Duplex } from 'node:stream';
import type { MessagePort } from 'node:worker_threads';
import { packFrame, unpackFrame } from '../codec.js';
import { limits } from '../limits/index.js';

export interface Transport<Out, In> {
  /** Messages of one turn of the event loop leave together, in order. */
  send(message: Out): void;
  /** Behind what waits, now and alone: nothing of it is kept here. */
  sendNow(message: Out): void;
  /** Behind what waits: a frame of messages that another thread has packed already. */
  forward(frame: Uint8Array): void;
  /** Sets the listener, which gets all messages that arrived together. Called once, before anything can arrive. */
  receive(listener: (messages: readonly In[]) => void): void;
  /** Calls the listener once, when the other side is gone for any reason. */
  onClose(listener: () => void): void;
  /** Calls back when all messages have left. */
  finish(done: () => void): void;
  close(): void;
}

/** Merges `next` into `last`, which has not left yet, and returns whether it could: one message costs less than two. */
export type Join<Out> = (last: Out, next: Out) => boolean;

/** Gathers the messages of one turn: each crossing costs far more than one more message in it. */
class Batch<Out> {
  #waiting: Out[] = [];

  constructor(
    readonly sendFrame: (frame: Uint8Array) => void,
    readonly join: Join<Out>,
  ) {}

  add(message: Out): void {
    const last = this.#waiting.at(-1);
    if (last !== undefined && this.join(last, message)) return;
    this.#waiting.push(message);
    if (this.#waiting.length === 1) setImmediate(() => this.leave());
  }

  now(message: Out): void {
    this.forward(packFrame([message]));
  }

  forward(frame: Uint8Array): void {
    this.leave();
    this.sendFrame(frame);
  }

  leave(): void {
    const messages = this.#waiting;
    if (messages.length === 0) return;
    this.#waiting = [];
    this.#send(messages);
  }

  /** Messages of a busy turn may exceed the bound of a frame: then they go in halves. */
  #send(messages: readonly Out[]): void {
    const frame = packFrame(messages);
    if (frame.byteLength <= limits.frameBytesUsual || messages.length === 1) {
      this.sendFrame(frame);
      return;
    }
    const half = messages.length >> 1;
    this.#send(messages.slice(0, half));
    this.#send(messages.slice(half));
  }
}

/** Sends frames, not objects: packing costs half as much as a structured clone. */
export function portTransport<Out, In>(
  port: MessagePort,
  join: Join<Out> = never,
): Transport<Out, In> {
  // A copy: for a view, the whole buffer behind it would be cloned.
  const sendFrame = (frame: Uint8Array) => port.postMessage(new Uint8Array(frame));
  const batch = new Batch<Out>(sendFrame, join);
  return {
    send: (message) => batch.add(message),
    sendNow: (message) => batch.now(message),
    forward: (frame) => batch.forward(frame),
    receive: (listener) =>
      port.on('message', (frame: Uint8Array) => listener(unpackFrame(frame) as In[])),
    onClose: (listener) => port.once('close', listener),
    finish: (done) => setImmediate(() => setImmediate(done)),
    close: () => port.close(),
  };
}

export interface PipeOptions<Out> {
  readonly join?: Join<Out>;
  /** Hears of the first unreadable frame, or of what a listener throws; nothing is read after it. Without it, it is thrown. */
  readonly onFault?: (fault: unknown) => void;
  readonly unpack?: (frame: Uint8Array) => unknown;
}

export function pipeTransport<Out, In>(
  pipe: Duplex,
  { join = never, onFault, unpack = unpackFrame }: PipeOptions<Out> = {},
): Transport<Out, In> {
  const sendFrame = (frame: Uint8Array) => {
    if (!pipe.writable) return;
    const head = Buffer.allocUnsafe(HEAD_BYTES);
    head.writeUInt32LE(frame.byteLength);
    pipe.cork();
    pipe.write(head);
    pipe.write(frame);
    pipe.uncork();
  };
  const batch = new Batch<Out>(sendFrame, join);
  // A pipe whose other end died emits both 'error' and 'close'; 'close' is enough.
  pipe.on('error', () => {});
  return {
    send: (message) => batch.add(message),
    sendNow: (message) => batch.now(message),
    forward: (frame) => batch.forward(frame),
    receive: (listener) => {
      const frames = new FrameReader((frame) => listener(unpack(frame) as In[]));
      const take = (chunk: Buffer) => {
        try {
          frames.push(chunk);
        } catch (fault) {
          if (onFault === undefined) throw fault;
          pipe.off('data', take);
          pipe.destroy();
          onFault(fault);
        }
      };
      pipe.on('data', take);
    },
    onClose: (listener) => pipe.once('close', listener),
    finish: (done) => setImmediate(() => pipe.end(done)),
    close: () => pipe.destroy(),
  };
}

const never = () => false;

const HEAD_BYTES = 4;

/** Bytes that come in parts, in one piece of memory: held each by itself, a million parts of one byte take 400 MB. */
export class GatheredBytes {
  #room: Buffer = Buffer.alloc(0);
  length = 0;

  add(part: Uint8Array): void {
    const length = this.length + part.length;
    if (length > this.#room.length) {
      const room = Buffer.allocUnsafe(Math.max(length, 2 * this.#room.length));
      room.set(this.bytes);
      this.#room = room;
    }
    this.#room.set(part, this.length);
    this.length = length;
  }

  /** A view, good until the next part. */
  get bytes(): Buffer {
    return this.#room.subarray(0, this.length);
  }

  /** @returns what was gathered, which nobody writes to any more. */
  take(): Buffer {
    const { bytes } = this;
    this.#room = Buffer.alloc(0);
    this.length = 0;
    return bytes;
  }
}

/** Cuts a byte stream into frames of a 4-byte little-endian length and that many bytes. */
export class FrameReader {
  readonly #begun = new GatheredBytes();

  constructor(readonly onFrame: (body: Buffer) => void) {}

  push(chunk: Buffer): void {
    const begun = this.#begun;
    let bytes = chunk;
    if (begun.length > 0) {
      begun.add(chunk);
      if (begun.length < frameEnd(begun.bytes)) return;
      // Its frames are views of it.
      bytes = begun.take();
    }
    for (let end = frameEnd(bytes); end <= bytes.length; end = frameEnd(bytes)) {
      this.onFrame(bytes.subarray(HEAD_BYTES, end));
      bytes = bytes.subarray(end);
    }
    if (bytes.length > 0) begun.add(bytes);
  }
}

function frameEnd(bytes: Buffer): number {
  if (bytes.length < HEAD_BYTES) return Number.POSITIVE_INFINITY;
  const length = bytes.readUInt32LE(0);
  if (length > limits.frameBytesMax) throw new Error(`frame of ${length} bytes`);
  return HEAD_BYTES + length;
}
