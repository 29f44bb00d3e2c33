/**
 * Owns the servers that are compared on the same weights: preface with and without exact answers, and llama-server.
 * It must never let one of them be at work while another is measured.
 */
import { availableParallelism } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { llamaServerPath, startLlamaServer } from './llama-server.js';
import { roughCpuSeconds } from './processes.js';
import type { Line, Sample, Scale, Side } from './question.js';
import { type Server, startService } from './servers.js';

export type ContenderName = 'exact' | 'not exact' | 'llama-server';

export interface Contender {
  readonly name: ContenderName;
  readonly server: Server;
}

const WINDOW = 8_192;
const SLOTS = 4;
/** Work of all servers within so many milliseconds that counts as none. */
const REST_MS = 200;
/** A tiny run judges no figure: it only shows that the servers are looked at. */
const TINY_REST_MS = 20;
const REST_CPU_S = 0.03;
const REST_TRIES = 100;

export const CONTENDERS_NOTE = `All have the same weights, ${SLOTS} slots of ${WINDOW} tokens and all cores; llama-server has ${availableParallelism()} threads and its prompt cache on. Nothing is pinned.`;

export class Contenders {
  private constructor(
    readonly all: readonly Contender[],
    private readonly restMs: number,
  ) {}

  static async open(weights: string, scale: Scale): Promise<Contenders> {
    // A tiny run judges no figure, so it need not find the best number of threads.
    const threads = scale.tiny ? { PREFACE_THREADS: '1,1' } : {};
    const env = (exact: string) => ({ PREFACE_ENGINE: 'llama', PREFACE_EXACT: exact, ...threads });
    const all: Contender[] = [];
    const contenders = new Contenders(all, scale.tiny ? TINY_REST_MS : REST_MS);
    try {
      all.push({ name: 'exact', server: await startService({ core: 'any', env: env('true') }) });
      const fast = await startService({ core: 'any', env: env('false') });
      all.push({ name: 'not exact', server: fast });
      const path = llamaServerPath();
      const settings = { weights, window: WINDOW, slots: SLOTS, hostCache: true };
      if (path !== null)
        all.push({ name: 'llama-server', server: await startLlamaServer({ path, ...settings }) });
      return contenders;
    } catch (cause) {
      await contenders.close();
      throw cause;
    }
  }

  get hasOther(): boolean {
    return this.all.some(({ name }) => name === 'llama-server');
  }

  /** One side for each server; each measurement begins when all of them rest. */
  sides(label: string, measure: (contender: Contender, round: number) => Promise<Sample>): Side[] {
    return this.all.map((contender) => ({
      name: sideName(label, contender.name),
      measure: async (round) => {
        await this.#rest();
        return await measure(contender, round);
      },
    }));
  }

  /** preface in both ways beside llama-server; without it, figures that nothing bounds. */
  lines(label: string, bounds: Pick<Line, 'unit' | 'better' | 'must' | 'goal'>): Line[] {
    return (['exact', 'not exact'] as const).map((name) => ({
      label: sideName(label, name),
      subject: sideName(label, name),
      ...bounds,
      ...(this.hasOther ? {} : { must: null, goal: null }),
      floors: this.hasOther ? [sideName(label, 'llama-server')] : [],
      judged: 'ratio',
    }));
  }

  /** Work that was put off, such as evaluating an answer again, would be at the cost of the next one measured. */
  async #rest(): Promise<void> {
    const pids = () => this.all.flatMap(({ server }) => server.tree());
    for (let tries = 0; tries < REST_TRIES; tries++) {
      const before = roughCpuSeconds(pids());
      await sleep(this.restMs);
      if (roughCpuSeconds(pids()) - before < REST_CPU_S) return;
    }
    throw new Error('the servers never rest');
  }

  async close(): Promise<void> {
    await Promise.all(this.all.map(({ server }) => server.close()));
  }
}

const sideName = (label: string, name: ContenderName): string => `${label}, ${name}`;
