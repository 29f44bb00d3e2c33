/**
 * Owns the question what an idle service costs: its memory, and the time from its start to its first answer.
 * It must never count weights: the echo engine has none.
 */
import { checkOf } from './support/check.js';
import { hasProc, memoryMegabytes } from './support/processes.js';
import type { Line, OpenQuestion, Question, Sample, Side } from './support/question.js';
import { type Server, startRaw, startService } from './support/servers.js';

export const question: Question = {
  name: 'idle-memory',
  title: 'Idle memory and cold start, echo engine',
  async open(): Promise<OpenQuestion | { skipped: string }> {
    if (!hasProc) return { skipped: 'it needs /proc' };
    const service = new Idle(() => startService({ core: 'any' }), '/health');
    const raw = new Idle(() => startRaw('any', { type: 'answer', body: '{"status":"ok"}' }), '/');
    return {
      sides: [...service.sides(''), ...raw.sides('raw ')],
      lines: [
        line('main process', 'MB', 150, 90),
        line('all processes', 'MB', 350, 200),
        line('cold start', 's', 1.5, 0.6),
      ],
      notes: ['Pages that the processes share are counted once.'],
      close: () => Promise.resolve(),
    };
  },
};

function line(label: string, unit: string, must: number, goal: number): Line {
  const floors = [`raw ${label}`];
  return { label, subject: label, unit, floors, judged: 'value', better: 'less', must, goal };
}

/** One start per round gives all figures. */
class Idle {
  #last: { round: number; figures: Promise<Figures> } | null = null;

  constructor(
    readonly open: () => Promise<Server>,
    readonly path: string,
  ) {}

  sides(prefix: string): Side[] {
    const side = (name: string, pick: (figures: Figures) => number): Side => ({
      name: prefix + name,
      measure: async (round) => sampleOf(await this.#figures(round), pick),
    });
    return [
      side('main process', ({ mainMb }) => mainMb),
      side('all processes', ({ treeMb }) => treeMb),
      side('cold start', ({ startS }) => startS),
    ];
  }

  #figures(round: number): Promise<Figures> {
    if (this.#last?.round !== round) this.#last = { round, figures: this.#measure() };
    return this.#last.figures;
  }

  async #measure(): Promise<Figures> {
    const startedMs = performance.now();
    const server = await this.open();
    const response = await fetch(`http://127.0.0.1:${server.port}${this.path}`);
    const body = await response.text();
    const startS = (performance.now() - startedMs) / 1000;
    await new Promise((resolve) => setTimeout(resolve, SETTLE_MS));
    const mainMb = memoryMegabytes([server.pid]);
    const treeMb = memoryMegabytes(server.tree());
    await server.close();
    return { mainMb, treeMb, startS, status: response.status, body };
  }
}

const SETTLE_MS = 500;

interface Figures {
  readonly mainMb: number;
  readonly treeMb: number;
  readonly startS: number;
  readonly status: number;
  readonly body: string;
}

function sampleOf(figures: Figures, pick: (figures: Figures) => number): Sample {
  const { status, body } = figures;
  return { value: pick(figures), errors: status === 200 ? 0 : 1, check: checkOf([status, body]) };
}
