/**
 * Owns the question what is evaluated on a day of plain chats that name nothing, with memory for a quarter of what they
 * begin with, and on the day after a restart.
 * It must never ask one server another day than the other.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { call, FIRST_NUMBER, Prefix } from './support/caches.js';
import { defaultWeights } from './support/counting.js';
import { firstContent } from './support/first-content.js';
import { llamaServerPath, MISSING, startLlamaServer } from './support/llama-server.js';
import type { Line, OpenQuestion, Question, Sample, Scale, Side } from './support/question.js';
import { RestartedService } from './support/restarted-service.js';
import type { Server } from './support/servers.js';

const WINDOW = 8_192;
/** Each keeps the beginning of one chat. */
const SLOTS = 2;
const APPS = 8;
const SIZE = { apps: APPS, tokens: 192, chats: 32 };
const TINY = { apps: 2, tokens: 48, chats: 3 };
/** Of so many chats one begins as none before it and none after it. */
const STRANGERS = 4;
const ANSWER_TOKENS = 2;
const STRANGER_NUMBER = 600_000;

export const question: Question = {
  name: 'promotion',
  title: `A day of plain chats of ${APPS} applications, memory for ${SLOTS}`,
  async open(scale) {
    const weights = defaultWeights();
    if (weights === null) {
      return { skipped: 'the default weights are not here; `preface models pull` gets them' };
    }
    const days: Days[] = [];
    const close = async (): Promise<void> => {
      for (const { server } of days) await server.close();
      rmSync(folder, { recursive: true, force: true });
    };
    const folder = mkdtempSync(join(tmpdir(), 'preface-promotion-'));
    try {
      for (const name of ['promoted', 'not promoted'] as const) {
        const env = envOf(name === 'promoted', scale);
        days.push(new Days(name, await RestartedService.open(join(folder, name), env)));
      }
      const path = llamaServerPath();
      if (path !== null)
        days.push(new Days('llama-server', await RestartedLlama.open(path, weights)));
      return { ...(await openQuestion(days, scale)), close };
    } catch (cause) {
      await close();
      throw cause;
    }
  },
};

const envOf = (promotes: boolean, { tiny }: Scale) => ({
  PREFACE_ENGINE: 'llama',
  PREFACE_SLOTS: String(SLOTS),
  PREFACE_PROMOTE: String(promotes),
  ...(tiny ? { PREFACE_THREADS: '1,1' } : {}),
});

async function openQuestion(
  days: readonly Days[],
  { tiny }: Scale,
): Promise<Omit<OpenQuestion, 'close'>> {
  const size = tiny ? TINY : SIZE;
  const [first] = days;
  if (first === undefined) throw new Error('no server runs');
  const prefix = await Prefix.ofTokens(first.server.server, size.tokens);
  const chats = dayOf(size);
  const others = days.slice(1).map(({ name }) => name);
  return {
    sides: days.flatMap((each) => [
      each.side('day', prefix, chats, 0),
      each.side('after a restart', prefix, chats, 1),
    ]),
    lines: ['day', 'after a restart'].flatMap((when) => others.map((name) => line(when, name))),
    notes: [
      `${size.chats} chats a day, all of one user: three quarters of them begin as one of ${size.apps} applications with ${size.tokens} tokens does, the others as none.`,
      `Each server has ${SLOTS} slots of ${WINDOW} tokens; llama-server has no other memory for prompts.`,
      ...(others.includes('llama-server') ? [] : [MISSING]),
    ],
  };
}

function line(when: string, floor: string): Line {
  return {
    label: `${when}, beside ${floor}`,
    subject: `${when}, promoted`,
    unit: 'tokens evaluated',
    floors: [`${when}, ${floor}`],
    judged: 'ratio',
    better: 'less',
    must: null,
    goal: null,
  };
}

/** The number of each chat's beginning: applications come by chance, the first ones more often. */
function dayOf({ apps, chats }: typeof SIZE): number[] {
  const next = generator(7);
  return Array.from({ length: chats }, (_, at) =>
    at % STRANGERS === STRANGERS - 1
      ? STRANGER_NUMBER + at
      : FIRST_NUMBER + Math.floor(next() ** 1.5 * apps),
  );
}

/** The same draw on each machine. */
function generator(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff;
    return state / 0x80000000;
  };
}

interface Restarted {
  readonly server: Server;
  restart(): Promise<Server>;
  close(): Promise<void>;
}

/** Two days of one server, with a restart between them. Whichever side is asked first lives through both. */
class Days {
  #lived: Promise<readonly [Sample, Sample]> | null = null;

  constructor(
    readonly name: 'promoted' | 'not promoted' | 'llama-server',
    readonly server: Restarted,
  ) {}

  side(when: string, prefix: Prefix, chats: readonly number[], day: 0 | 1): Side {
    return {
      name: `${when}, ${this.name}`,
      roundsMax: 1,
      measure: async () => {
        this.#lived ??= this.#live(prefix, chats);
        return (await this.#lived)[day];
      },
    };
  }

  async #live(prefix: Prefix, chats: readonly number[]): Promise<readonly [Sample, Sample]> {
    const first = await this.#day(prefix, chats, 0);
    await this.server.restart();
    // Strangers stay strangers.
    const again = chats.map((number) => (number < STRANGER_NUMBER ? number : number + 1_000));
    return [first, await this.#day(prefix, again, 1)];
  }

  async #day(prefix: Prefix, chats: readonly number[], day: number): Promise<Sample> {
    const { port } = this.server.server;
    const before = await this.#kept();
    let [evaluated, reused] = [0, 0];
    for (const [at, number] of chats.entries()) {
      const body = prefix.chat(number, `Question ${day * chats.length + at}?`, ANSWER_TOKENS);
      const { promptTokens, cachedTokens } = await firstContent({ port, body });
      evaluated += promptTokens - cachedTokens;
      reused += cachedTokens;
    }
    const kept = await this.#kept();
    const own = kept.evaluated - before.evaluated;
    return {
      value: evaluated + own,
      errors: 0,
      check: `${chats.length} chats`,
      beside: {
        'tokens reused': reused,
        'tokens evaluated for the disk': own,
        'MB on disk': kept.bytes / 1e6,
      },
    };
  }

  /** What lies on disk, and the tokens that were evaluated for it beside the chats. */
  async #kept(): Promise<Kept> {
    const sum = { bytes: 0, evaluated: 0 };
    if (this.name === 'llama-server') return sum;
    const path = '/v1/caching?limit=100';
    const { data } = await call<{ data: readonly Listed[] }>(this.server.server, 'GET', path);
    for (const { snapshot } of data) {
      sum.bytes += snapshot?.bytes ?? 0;
      sum.evaluated += snapshot?.evaluated_tokens ?? 0;
    }
    return sum;
  }
}

interface Kept {
  readonly bytes: number;
  readonly evaluated: number;
}

interface Listed {
  readonly snapshot?: { readonly bytes: number; readonly evaluated_tokens: number };
}

class RestartedLlama implements Restarted {
  private constructor(
    private readonly start: () => Promise<Server>,
    private running: Server,
  ) {}

  static async open(path: string, weights: string): Promise<RestartedLlama> {
    const start = () => startLlamaServer({ path, weights, window: WINDOW, slots: SLOTS });
    return new RestartedLlama(start, await start());
  }

  get server(): Server {
    return this.running;
  }

  async restart(): Promise<Server> {
    await this.running.close();
    this.running = await this.start();
    return this.running;
  }

  close(): Promise<void> {
    return this.running.close();
  }
}
