/**
 * Owns the models: their queues, and which of them have a context within the memory budget.
 * It must never drop a context that is at work, nor make one that nobody has used, in this run or the last.
 */
import { type EngineModelSpec, type EngineOptions, limits } from 'preface/plugin';
import type { Exactness } from './certificate.js';
import { Lane } from './lane.js';
import { LastOpened } from './last-opened.js';
import { type ContextPlan, contextPlan } from './memory.js';
import type { Weights } from './native.js';
import type { Job } from './prompt.js';
import type { ThreadChoice } from './threads.js';

interface Waiting {
  readonly job: Job;
  /** Order of arrival over all models. */
  readonly arrival: number;
}

/** Models with the same weights and window share a station, and so a context. */
interface Station {
  /** One of its models. */
  readonly model: string;
  readonly weights: Weights;
  /** Null where no equality is wanted. */
  readonly exactness: Exactness | null;
  readonly plan: ContextPlan;
  readonly queue: Waiting[];
  lane: Lane | null;
  opening: boolean;
  usedAt: number;
}

export class Stations {
  onChange: () => void = () => {};
  readonly #stations = new Map<string, Station>();
  readonly #byModel = new Map<string, Station>();
  #arrivals = 0;
  #closed = false;
  #openings: Promise<void>[] = [];
  readonly #lastOpened: LastOpened;

  constructor(
    private readonly options: EngineOptions,
    private readonly threads: ThreadChoice,
  ) {
    this.#lastOpened = new LastOpened(options.stateDir);
  }

  /** Opens the context that the last run opened last: the first chat after a restart need not wait for it. */
  async reopen(): Promise<void> {
    const model = await this.#lastOpened.take();
    const station = model === null ? undefined : this.#byModel.get(model);
    // Somebody who came meanwhile has a better claim to the memory.
    const others = [...this.#stations.values()].some(({ lane, opening }) => lane || opening);
    if (!station || others) return;
    this.#open(station);
    await Promise.all(this.#openings);
  }

  /** False when its context could never fit. */
  add(spec: EngineModelSpec, path: string, weights: Weights, exactness: Exactness | null): boolean {
    const { slots, memoryBytesMax } = this.options;
    const plan = contextPlan(weights.facts, spec.window, slots, memoryBytesMax);
    if (!plan) return false;
    const key = `${spec.window} ${path}`;
    const station = this.#stations.get(key) ?? {
      model: spec.id,
      weights,
      exactness,
      plan,
      queue: [],
      lane: null,
      opening: false,
      usedAt: 0,
    };
    this.#stations.set(key, station);
    this.#byModel.set(spec.id, station);
    return true;
  }

  plan(model: string): ContextPlan | null {
    return this.#byModel.get(model)?.plan ?? null;
  }

  weights(model: string): Weights | null {
    return this.#byModel.get(model)?.weights ?? null;
  }

  exactness(model: string): Exactness | null {
    return this.#byModel.get(model)?.exactness ?? null;
  }

  enqueue(model: string, job: Job): void {
    let waiting = 0;
    for (const station of this.#stations.values()) waiting += station.queue.length;
    if (waiting >= limits.engineQueueMax) {
      throw Object.assign(new Error(`more than ${limits.engineQueueMax} generations wait`), {
        code: 'overloaded',
      });
    }
    this.#byModel.get(model)?.queue.push({ job, arrival: this.#arrivals++ });
  }

  get idle(): boolean {
    return [...this.#stations.values()].every(
      (station) => station.queue.length === 0 && !station.lane?.active.size,
    );
  }

  lanes(): Lane[] {
    return [...this.#stations.values()].flatMap((station) => station.lane ?? []);
  }

  async settle(): Promise<void> {
    for (const station of this.#stations.values()) {
      dropUnwanted(station.queue);
      if (station.lane) await this.guard(station.lane, (lane) => lane.settle());
    }
  }

  /** Gives free sequences to those that wait, oldest first. */
  async admit(): Promise<void> {
    const waiting = [...this.#stations.values()]
      .filter((station) => station.queue.length > 0)
      .sort((a, b) => (a.queue[0]?.arrival ?? 0) - (b.queue[0]?.arrival ?? 0));
    for (const station of waiting) {
      if (station.lane) await this.#admitTo(station, station.lane);
      // Later requests wait as well: otherwise the memory might never become free.
      else if (!station.opening && !(await this.#makeRoom(station))) return;
      else if (!station.opening) this.#open(station);
    }
  }

  async #admitTo(station: Station, lane: Lane): Promise<void> {
    while (lane.hasFreeSlot) {
      const job = this.#next(station, lane);
      if (!job) return;
      station.usedAt = ++this.#arrivals;
      try {
        await lane.admit(job);
      } catch (cause) {
        job.fail(cause);
        if (!lane.active.has(job)) job.end();
      }
    }
  }

  /** The oldest that can begin; those that need the disk are let past while it is asked. */
  #next(station: Station, lane: Lane): Job | null {
    for (const [i, { job }] of station.queue.entries()) {
      const { prompt } = job;
      if (prompt.unprepared && !lane.holds(prompt)) prompt.prepare(() => this.onChange());
      if (prompt.preparing) continue;
      station.queue.splice(i, 1);
      return job;
    }
    return null;
  }

  /** Empties every sequence that holds the snapshot. Between two steps only. */
  forget(snapshot: string): void {
    for (const lane of this.lanes()) lane.forget(snapshot);
  }

  /** Disposes idle contexts, longest unused first, until the station's fits. */
  async #makeRoom(station: Station): Promise<boolean> {
    const open = [...this.#stations.values()].filter((other) => other.lane || other.opening);
    let bytes = open.reduce((sum, other) => sum + other.plan.bytes, station.plan.bytes);
    const idle = open.filter((other) => other.lane?.active.size === 0);
    for (const other of idle.sort((a, b) => a.usedAt - b.usedAt)) {
      if (bytes <= this.options.memoryBytesMax) break;
      await this.#drop(other, new Error('the context was disposed'));
      bytes -= other.plan.bytes;
    }
    return bytes <= this.options.memoryBytesMax;
  }

  #open(station: Station): void {
    station.opening = true;
    const opening = this.#openLane(station)
      .catch((cause: unknown) => {
        for (const { job } of station.queue.splice(0)) {
          job.fail(cause);
          job.end();
        }
      })
      .finally(() => {
        station.opening = false;
        this.#openings = this.#openings.filter((other) => other !== opening);
        this.onChange();
      });
    this.#openings.push(opening);
  }

  async #openLane(station: Station): Promise<void> {
    const { weights, plan, exactness } = station;
    if (this.#closed) return;
    const flashAttention = exactness === null;
    const rows = Math.max(limits.prefillRowsMax, 4 * plan.sequences);
    const { window, sequences } = plan;
    const context = await weights.context({ window, sequences, flashAttention, rows });
    const { threads } = this;
    station.lane = new Lane({ weights, context, sequences, window, exactness, threads });
    await this.#lastOpened.note(station.model);
  }

  /** A native failure leaves a context in an unknown state: its generations fail and it is made anew. */
  async guard(lane: Lane, step: (lane: Lane) => Promise<void>): Promise<void> {
    try {
      await step(lane);
    } catch (cause) {
      const station = [...this.#stations.values()].find((other) => other.lane === lane);
      const failure = cause instanceof Error ? cause : new Error(String(cause));
      if (station) await this.#drop(station, failure);
    }
  }

  async #drop(station: Station, failure: Error): Promise<void> {
    const { lane } = station;
    station.lane = null;
    await lane?.close(failure);
  }

  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all(this.#openings);
    const failure = new Error('the engine was closed');
    const weights = new Set<Weights>();
    for (const station of this.#stations.values()) {
      for (const { job } of station.queue.splice(0)) {
        job.fail(failure);
        job.end();
      }
      await this.#drop(station, failure);
      weights.add(station.weights);
    }
    for (const each of weights) await each.close();
  }
}

function dropUnwanted(queue: Waiting[]): void {
  for (let i = queue.length - 1; i >= 0; i--) {
    const job = queue[i]?.job;
    if (!job?.unwanted) continue;
    queue.splice(i, 1);
    job.end();
  }
}
