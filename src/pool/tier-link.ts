/**
 * Owns the two ends of the way between an engine and the second place of its kept prefixes, over its host's transport.
 * It must never leave a fetch running whose engine is gone, nor one of a living engine without its answer.
 */
import type { SnapshotFile, SnapshotTier, WantedSnapshot } from '../plugin/contract.js';

/** What an engine says. Each `bring` has its own number and gets one answer. */
export type TierAsk =
  | { readonly type: 'bring'; readonly fetch: number; readonly wanted: WantedSnapshot }
  | { readonly type: 'stop'; readonly fetch: number }
  | { readonly type: 'kept' | 'damaged'; readonly file: SnapshotFile };

export interface TierAnswer {
  readonly fetch: number;
  readonly brought: boolean;
}

/** The engine's end. */
export class TierCaller implements SnapshotTier {
  readonly #waiting = new Map<number, (brought: boolean) => void>();
  #next = 1;

  constructor(private readonly send: (ask: TierAsk) => void) {}

  bring(wanted: WantedSnapshot, signal: AbortSignal): Promise<boolean> {
    if (signal.aborted) return Promise.resolve(false);
    const fetch = this.#next++;
    const stop = () => this.send({ type: 'stop', fetch });
    signal.addEventListener('abort', stop, { once: true });
    this.send({ type: 'bring', fetch, wanted });
    return new Promise((resolve) => {
      this.#waiting.set(fetch, (brought) => {
        signal.removeEventListener('abort', stop);
        resolve(brought);
      });
    });
  }

  kept(file: SnapshotFile): void {
    this.send({ type: 'kept', file });
  }

  damaged(file: SnapshotFile): void {
    this.send({ type: 'damaged', file });
  }

  receive({ fetch, brought }: TierAnswer): void {
    this.#waiting.get(fetch)?.(brought);
    this.#waiting.delete(fetch);
  }
}

/** The service's end, for one engine process. */
export class TierServer {
  readonly #running = new Map<number, AbortController>();

  constructor(
    private readonly tier: SnapshotTier,
    private readonly send: (answer: TierAnswer) => void,
  ) {}

  receive(ask: TierAsk): void {
    if (ask.type === 'bring') void this.#bring(ask.fetch, ask.wanted);
    else if (ask.type === 'stop') this.#running.get(ask.fetch)?.abort();
    else if (ask.type === 'kept') this.tier.kept(ask.file);
    else this.tier.damaged(ask.file);
  }

  async #bring(fetch: number, wanted: WantedSnapshot): Promise<void> {
    const control = new AbortController();
    this.#running.set(fetch, control);
    const brought = await this.tier.bring(wanted, control.signal);
    this.#running.delete(fetch);
    this.send({ fetch, brought });
  }

  /** The engine is gone. */
  close(): void {
    for (const control of this.#running.values()) control.abort();
  }
}
