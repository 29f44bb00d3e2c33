/**
 * Owns the events of a response that is made in the background, and tells its readers of new ones.
 * It must never lose an event before all who read it have left.
 */
import type { Clock } from '../clock.js';
import type { Exchange } from './exchange.js';
import { EventStream } from './sse.js';

export class EventLog {
  readonly #events: string[] = [];
  #ended = false;
  #waiting: (() => void)[] = [];

  /** Each as it goes out; its place is its number. */
  get events(): readonly string[] {
    return this.#events;
  }

  get ended(): boolean {
    return this.#ended;
  }

  add(frames: string): void {
    for (const frame of frames.split(/(?<=\n\n)/)) if (frame !== '') this.#events.push(frame);
    this.#tell();
  }

  end(): void {
    this.#ended = true;
    this.#tell();
  }

  /** Resolves when there is more, or no more to come. */
  more(): Promise<void> {
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  #tell(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const each of waiting) each();
  }
}

interface Followed {
  readonly events: readonly string[];
  readonly ended: boolean;
  more(): Promise<void>;
}

/** A log that has ended long ago. */
export function endedLog(events: readonly string[]): Followed {
  return { events, ended: true, more: () => Promise.resolve() };
}

export interface Following {
  readonly clock: Clock;
  readonly keepAliveMs: number;
  /** Number of the first event that is wanted. */
  readonly from: number;
}

/** Sends the events as the reader takes them, until the last. */
export async function follow(
  exchange: Exchange,
  log: Followed,
  { clock, keepAliveMs, from }: Following,
): Promise<void> {
  // The events are numbered, so that none can be added for one reader.
  const keepAlive = () => ': \n\n';
  const stream = new EventStream(exchange, { clock, keepAlive, keepAliveMs, failed: () => '' });
  const left = new Promise<void>((resolve) => exchange.onGone(resolve));
  for (let at = from; !exchange.gone; ) {
    const events = log.events.slice(at, at + BATCH);
    at += events.length;
    if (events.length > 0) {
      if (!stream.send(events.join(''))) await stream.drained();
    } else if (log.ended) {
      stream.end('');
      return;
    } else await Promise.race([log.more(), left]);
  }
}

/** Events that are handed over at once. */
const BATCH = 64;
