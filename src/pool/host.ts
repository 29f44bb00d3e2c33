/**
 * Owns the life of a host process: starts it, speaks with it, and starts another when it dies.
 * A death must cost only the streams that ran in it; it must never take the server along.
 */
import type { ChildProcess } from 'node:child_process';
import type { Clock } from '../clock.js';
import { engineEnvironment } from '../environment.js';
import { ApiError, type ErrorValue, fromErrorValue } from '../errors.js';
import { limits } from '../limits/index.js';
import type {
  EngineEvent,
  EngineModel,
  ExactState,
  GenerateTask,
  ModelMemory,
  PrefillTask,
  RefusedModel,
  SnapshotInfo,
  VectorTask,
  WarmCount,
  WarmReport,
} from '../plugin/contract.js';
import { childPipe, killChild, startChild } from './child.js';
import type { LargeImages } from './large-images.js';
import { LifeWatch } from './life-watch.js';
import type {
  EngineWork,
  FromEngine,
  HostLine,
  HostOpen,
  HostStart,
  ToEngine,
} from './messages.js';
import {
  type EngineState,
  refused,
  type TokenStream,
  TokenStreamClient,
  type TokenStreamHandlers,
} from './token-stream.js';

export interface HostOptions {
  readonly start: HostStart;
  /** Streams that may run or wait in the engine at the same time; one more is `overloaded`. */
  readonly streamsMax: number;
  readonly clock: Clock;
  readonly log: (line: string) => void;
  /** Beside what an engine gets of this process's own. */
  readonly env?: Readonly<Record<string, string>>;
  /** `limits.hostPingMs` and `hostPingsMax` if absent. */
  readonly pingMs?: number;
  readonly pingsMax?: number;
  /** `limits.hostOpenMsMax` if absent. */
  readonly openMsMax?: number;
  /** `limits.hostStandByDelayMs` if absent. */
  readonly standByDelayMs?: number;
  /** The process ended by itself; another is on its way. */
  readonly onEnded?: (reason: string) => void;
}

export interface HostWatcher {
  /** An engine is there, the first one or another. */
  back(): void;
  /** One could not be started; whether the next one can is not known. */
  lost(error: ApiError): void;
}

const RESTARTING: ErrorValue = {
  row: 'unavailable',
  values: { error: 'the inference process is restarting' },
  extra: { retryAfterMs: 1000 },
};

export class Host {
  #child: ChildProcess | null = null;
  /** Takes the place of the one that dies: its engine is imported and what takes long is done, but for the weights. */
  #standBy: ChildProcess | null = null;
  #client: TokenStreamClient | null = null;
  #closed = false;
  /** The present engine has said that it is open. */
  #opened = false;
  #everOpened = false;
  #cancelStandBy = () => {};
  /** Of the present engine, until it is open. */
  #cancelOpen = () => {};
  readonly #watches = new WeakMap<ChildProcess, LifeWatch>();
  /** Their pipes have closed, and others are in their place; they have not ended yet. */
  readonly #leaving = new Set<ChildProcess>();
  readonly #watchers: HostWatcher[] = [];
  #refused: readonly RefusedModel[] = [];
  /** As the present engine says. */
  readonly #exact = new Map<string, ExactState | undefined>();
  readonly #seeing = new Map<string, boolean>();
  readonly #memory = new Map<string, ModelMemory | undefined>();
  #delayMs: number = limits.hostRestartDelayMs;
  #onFirstState: (state: EngineState) => void = () => {};
  /** Models the engine offers; settled by the first start, which must succeed. */
  readonly ready: Promise<readonly EngineModel[]>;

  constructor(readonly options: HostOptions) {
    this.ready = new Promise((resolve, reject) => {
      this.#onFirstState = (state) => {
        if (state.type === 'ready') {
          this.#refused = state.refused;
          resolve(state.models);
        } else if (state.type === 'failed') reject(fromErrorValue(state.error));
      };
    });
    // The one who composes awaits it; until then a failure must not end the process.
    this.ready.catch(() => {});
    this.#spawn();
  }

  /** Models the engine does not offer, once it is `ready`. */
  get refused(): readonly RefusedModel[] {
    return this.#refused;
  }

  /** See `EngineModel.exact`: it may become known while the engine serves. */
  exact(model: string): ExactState | undefined {
    return this.#exact.get(model);
  }

  /** See `EngineModel.vision`: an upstream may tell it while the engine serves. */
  sees(model: string): boolean | undefined {
    return this.#seeing.get(model);
  }

  /** See `EngineModel.memory`; it says nothing while no engine is there. */
  memory(model: string): ModelMemory | undefined {
    return this.serving ? this.#memory.get(model) : undefined;
  }

  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /** With the one that stands by. */
  get pids(): readonly (number | undefined)[] {
    return [this.pid, this.#standBy?.pid];
  }

  /** Whether an engine is there to begin what it is given. */
  get serving(): boolean {
    return this.#opened && this.#client?.closed === false;
  }

  /** Whether it answers now: an engine that stands still does not, nor one whose upstreams are all dead. */
  get answers(): boolean {
    const client = this.#client;
    if (!this.serving || client === null) return false;
    return client.reachable && client.pingsUnanswered < limits.hostPingsLateMax;
  }

  watch(watcher: HostWatcher): void {
    this.#watchers.push(watcher);
  }

  generate(
    task: GenerateTask,
    handlers: TokenStreamHandlers,
    images: LargeImages | null = null,
  ): TokenStream {
    return this.#start({ type: 'generate', task }, handlers, images);
  }

  vectors(task: VectorTask, handlers: TokenStreamHandlers): TokenStream {
    return this.#start({ type: 'vectors', task }, handlers);
  }

  /** See `Engine.prefill`. @throws ApiError, also when the process dies under way or the signal ends it. */
  async prefill(task: PrefillTask, signal: AbortSignal): Promise<SnapshotInfo> {
    signal.throwIfAborted();
    const [event] = await this.#whole({ type: 'prefill', task }, signal);
    if (event?.type === 'prefilled') return event.snapshot;
    throw new ApiError('server', { error: 'the engine ended a prefill without a snapshot' });
  }

  /** See `Engine.holds`. */
  async holds(task: PrefillTask): Promise<boolean> {
    const [event] = await this.#whole({ type: 'holds', task });
    return event?.type === 'held' && event.held;
  }

  /** See `Engine.forget`. */
  async forget(snapshot: string): Promise<void> {
    await this.#whole({ type: 'forget', snapshot });
  }

  /** See `Engine.load`. @throws ApiError `modelAtWork`. */
  async load(model: string): Promise<void> {
    await this.#whole({ type: 'load', model });
  }

  /** See `Engine.unload`. @throws ApiError `modelAtWork`. */
  async unload(model: string): Promise<void> {
    await this.#whole({ type: 'unload', model });
  }

  #whole(work: EngineWork, signal?: AbortSignal): Promise<EngineEvent[]> {
    const events: EngineEvent[] = [];
    return new Promise((resolve, reject) => {
      const stop = () => stream.cancel(null);
      const stream = this.#start(work, {
        onEvents: (more) => void events.push(...more),
        onEnd(error) {
          signal?.removeEventListener('abort', stop);
          if (error === null) resolve(events);
          else reject(fromErrorValue(error));
        },
      });
      signal?.addEventListener('abort', stop, { once: true });
    });
  }

  #start(
    work: EngineWork,
    handlers: TokenStreamHandlers,
    images: LargeImages | null = null,
  ): TokenStream {
    const client = this.#client;
    // The pipe closes a moment before the exit is told.
    if (client !== null && !client.closed) return client.start(work, handlers, images);
    return refused(handlers, RESTARTING);
  }

  close(): Promise<void> {
    this.#closed = true;
    this.#cancelOpen();
    const all = [this.#child, this.#standBy, ...this.#leaving];
    return Promise.all(all.map(killed)).then(() => {});
  }

  #spawn(): void {
    const child = this.#takeStandBy() ?? this.#fork();
    this.#child = child;
    this.#boundOpening(child);
    const open: HostOpen = { warmFirst: !this.#everOpened };
    child?.stdin?.write(`${JSON.stringify(open)}\n`);
    const transport = childPipe<ToEngine, FromEngine>(child);
    if (transport === null) {
      this.#died(child, 'it could not be started');
      return;
    }
    // Before the client tells those whose streams are lost, so that who comes again at once finds the next one.
    if (child !== null) transport.onClose(() => this.#leave(child));
    this.#client = new TokenStreamClient(
      transport,
      (state) => this.#onState(state),
      (fault) =>
        this.options.log(`stream: ${fault instanceof Error ? fault.stack : String(fault)}`),
      this.options.streamsMax,
    );
  }

  /** One that shows no life now would keep everybody waiting until that is certain. */
  #takeStandBy(): ChildProcess | null {
    const child = this.#standBy;
    this.#standBy = null;
    if (child === null || this.#watches.get(child)?.isLively === true) return child;
    killChild(child);
    return null;
  }

  #boundOpening(child: ChildProcess | null): void {
    this.#cancelOpen();
    if (child === null) return;
    const { clock, log, openMsMax = limits.hostOpenMsMax } = this.options;
    this.#cancelOpen = clock.after(openMsMax, () => {
      log(`inference process: its engine is not open after ${openMsMax / 1000} s, it is ended`);
      killChild(child);
    });
  }

  #fork(): ChildProcess | null {
    const { clock, log, pingMs = limits.hostPingMs, pingsMax = limits.hostPingsMax } = this.options;
    const start: HostLine = { ...this.options.start, beatMs: Math.ceil(pingMs / 2) };
    try {
      const child = startChild({
        entry: new URL('./host-child.js', import.meta.url),
        start,
        input: 'start',
        beats: true,
        env: { ...engineEnvironment(process.env), ...this.options.env },
        prints: true,
        onEnd: (ended, how) => this.#ended(ended, how),
      });
      const onSilent = (ms: number) =>
        log(`inference process ${child.pid}: no sign of life for ${ms / 1000} s, it is ended`);
      const watch = { child, clock, lookMs: pingMs, silentMax: pingsMax, onSilent };
      this.#watches.set(child, new LifeWatch(watch));
      return child;
    } catch (cause) {
      this.options.log(`inference process: ${cause instanceof Error ? cause.message : cause}`);
      return null;
    }
  }

  #onState(state: EngineState): void {
    this.#onFirstState(state);
    if (state.type === 'warm') {
      this.options.log(`inference process: ${warmLine(state.report)}`);
      return;
    }
    if (state.type !== 'failed') {
      for (const { id, exact, vision, memory } of state.models) {
        this.#exact.set(id, exact);
        this.#seeing.set(id, vision);
        this.#memory.set(id, memory);
      }
    }
    if (state.type === 'ready') this.#ready();
    else if (state.type === 'failed')
      this.options.log(`inference process: ${fromErrorValue(state.error).message}`);
  }

  #ready(): void {
    this.#cancelOpen();
    this.#delayMs = limits.hostRestartDelayMs;
    this.#opened = true;
    this.#everOpened = true;
    this.#watch();
    // Later, so that it takes no time from the first to ask.
    this.#standByAfter(this.options.standByDelayMs ?? limits.hostStandByDelayMs);
    for (const watcher of this.#watchers) watcher.back();
  }

  #standByAfter(delayMs: number): void {
    this.#cancelStandBy();
    this.#cancelStandBy = this.options.clock.after(delayMs, () => {
      if (!this.#closed && this.#opened) this.#standBy ??= this.#fork();
    });
  }

  /**
   * An engine that never lets its thread go would keep its streams waiting for ever. Pings are counted, not time: a
   * machine that slept, or a clock that jumped, is no fault of the engine.
   */
  #watch(): void {
    const [child, client] = [this.#child, this.#client];
    if (child === null || client === null) return;
    const { clock, log, pingMs = limits.hostPingMs, pingsMax = limits.hostPingsMax } = this.options;
    clock.after(pingMs, () => {
      if (this.#closed || this.#child !== child) return;
      if (client.pingsUnanswered >= pingsMax) {
        log(`inference process: no sign of life for ${(pingMs * pingsMax) / 1000} s, it is ended`);
        killChild(child);
        return;
      }
      client.ping();
      this.#watch();
    });
  }

  #ended(child: ChildProcess, how: string): void {
    if (child !== this.#standBy) {
      this.#died(child, how);
      return;
    }
    this.#standBy = null;
    if (this.#closed) return;
    this.options.log(`the inference process that stands by ended (${how})`);
    this.#standByAfter(limits.hostRestartDelayMsMax);
  }

  /** A large process is gone a tenth of a second after its pipe has closed: where one stands by, nobody waits for that. */
  #leave(child: ChildProcess): void {
    if (this.#child !== child || this.#closed || this.#standBy === null) return;
    this.#leaving.add(child);
    this.options.clock.after(limits.hostLeaveMsMax, () => {
      if (this.#leaving.has(child)) killChild(child);
    });
    this.#drop();
    this.#spawn();
  }

  #drop(): void {
    this.#cancelOpen();
    this.#client = null;
    this.#child = null;
    if (!this.#opened) {
      for (const watcher of this.#watchers) watcher.lost(fromErrorValue(RESTARTING));
    }
    this.#opened = false;
  }

  #died(child: ChildProcess | null, how: string): void {
    const left = child !== null && this.#leaving.delete(child);
    if (this.#closed || !(left || this.#child === child)) return;
    if (!left) this.#drop();
    const error = { row: 'server', values: { error: `the inference process ended: ${how}` } };
    this.#onFirstState({ type: 'failed', error: { ...error, extra: {} } as ErrorValue });
    this.options.onEnded?.(how);
    if (left || this.#standBy) {
      this.options.log(`inference process ended (${how}), the one that stood by takes its place`);
      if (!left) this.#spawn();
      return;
    }
    this.options.log(`inference process ended (${how}), next start in ${this.#delayMs} ms`);
    this.options.clock.after(this.#delayMs, () => {
      if (!this.#closed) this.#spawn();
    });
    this.#delayMs = Math.min(this.#delayMs * 2, limits.hostRestartDelayMsMax);
  }
}

async function killed(child: ChildProcess | null): Promise<void> {
  if (child === null || child.exitCode !== null || child.signalCode !== null) return;
  await new Promise((resolve) => {
    child.once('exit', resolve);
    // Of one that never ran.
    child.once('error', resolve);
    killChild(child);
  });
}

function warmLine({ pinned, loaded, ms }: WarmReport): string {
  const told = ({ count, tokens, bytes }: WarmCount) =>
    `${count} (${tokens} tokens, ${Math.round(bytes / 2 ** 20)} MiB)`;
  return `prefixes in memory: pinned ${told(pinned)}, used most ${told(loaded)}, after ${Math.round(ms)} ms`;
}
