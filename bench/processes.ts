/**
 * Owns the question what several processes of one service answer together, and what a chat costs then: most users are served by
 * another process than the one that got the connection.
 * It must never measure two services at once, nor send the chats of one user alone: those come to one process.
 */
import { chatRequest } from './support/chat.js';
import { checkOf } from './support/check.js';
import { freePort } from './support/free-port.js';
import { lasting } from './support/http-side.js';
import { LoadClient } from './support/load.js';
import { hasProc } from './support/processes.js';
import type { Line, OpenQuestion, Question, Sample, Scale, Side } from './support/question.js';
import { KEY, type Server, startService } from './support/servers.js';
import { untilShared } from './support/shares.js';

interface Size {
  readonly counts: readonly number[];
  readonly shards: number;
  readonly users: number;
}
const SIZE: Size = { counts: [1, 2, 4], shards: 16, users: 64 };
/** Each process takes its time to start, and each user is asked for at each process. */
const TINY: Size = { counts: [1, 2], shards: 4, users: 8 };
const CONNECTIONS = 64;
const TINY_REQUESTS = 64;
/**
 * Of each process. A chat goes through some thousands of functions, and until the last of them is compiled it takes five times the
 * processor: after 3 500 chats the cost of one changes no more. By chats and not by time: with more processes each has fewer.
 */
const WARM_CHATS = 4_000;
const WARM_MS_MAX = 60_000;
/** A window is so many times as long as one of other questions: of a short one most is what the machine does beside it. */
const WINDOWS = 3;

export const question: Question = {
  name: 'processes',
  title: 'Chats on the echo engine, several processes',
  async open(scale) {
    if (!hasProc) return { skipped: 'it needs /proc' };
    // The second of them is built where it is not there: for who asks this question alone.
    const { intoShards, skipPostgres, TestPostgres } = await import('../test/support/postgres.js');
    const { S3Server, s3Missing } = await import('../test/support/s3-server.js');
    const missing = skipPostgres || s3Missing;
    if (missing !== false) return { skipped: missing };
    const { temporaryFolder } = await import('../test/support/service.js');
    const ends: (() => unknown)[] = [];
    const until = { teardown: (end: () => unknown) => void ends.unshift(end) };
    const store = await (await TestPostgres.start(until)).database();
    const size = scale.tiny ? TINY : SIZE;
    await intoShards(store, temporaryFolder(until), size.shards);
    const env = { ...(await S3Server.start(until)).env(), PREFACE_STORE: store };
    const close = async () => {
      for (const end of ends) await end();
    };
    return openQuestion(scale, size, env, close);
  },
};

type Env = Readonly<Record<string, string>>;

function openQuestion(
  scale: Scale,
  size: Size,
  env: Env,
  close: () => Promise<void>,
): OpenQuestion {
  const { users, shards } = size;
  const runs = size.counts.map((processes) => new Runs(processes, scale, size, env));
  const lines = runs
    .slice(1)
    .flatMap(({ rate, cost }) => [
      line(rate, runs[0]?.rate, 'chats/s', 'more'),
      line(cost, runs[0]?.cost, 'CPU ms / chat', 'less'),
    ]);
  return {
    sides: runs.flatMap(({ rate, cost }) => [rate, cost]),
    lines,
    notes: [
      'Clients and processes share all cores: the client is on the last one, the processes are on any.',
      `${users} users on ${CONNECTIONS} connections, ${shards} shards, records in PostgreSQL, which is not counted.`,
    ],
    close,
  };
}

function line(side: Side, floor: Side | undefined, unit: string, better: 'more' | 'less'): Line {
  const floors = floor === undefined ? [] : [floor.name];
  const bounds = { judged: 'ratio', better, must: null, goal: null } as const;
  return { label: side.name, subject: side.name, unit, floors, ...bounds };
}

/** A service with so many processes, which is started for each round: one that rests looks at the database all the time. */
class Runs {
  readonly #rounds = new Map<number, Promise<Sample>>();
  readonly rate: Side;
  readonly cost: Side;

  constructor(
    readonly processes: number,
    readonly scale: Scale,
    readonly size: Size,
    readonly env: Env,
  ) {
    const name = processes === 1 ? '1 process' : `${processes} processes`;
    const roundsMax = scale.rounds;
    this.rate = { name, roundsMax, measure: (round) => this.#round(round) };
    this.cost = {
      name: `${name}, cost`,
      roundsMax,
      measure: async (round) => {
        const { beside = {}, ...sample } = await this.#round(round);
        return { ...sample, value: beside[CPU_MS] ?? Number.NaN };
      },
    };
  }

  /** Both sides are figures of one measurement. */
  #round(round: number): Promise<Sample> {
    const run = this.#rounds.get(round) ?? this.#measure();
    this.#rounds.set(round, run);
    return run;
  }

  async #measure(): Promise<Sample> {
    const { processes, size, env } = this;
    const keys = keysOf(size.users);
    const port = await freePort(processes);
    const service = await startService({
      core: 'any',
      env: {
        ...env,
        PREFACE_PORT: String(port),
        PREFACE_PROCESSES: String(processes),
        PREFACE_API_KEYS: keys.map((key, at) => `user-${at}:${key}`).join(','),
      },
    });
    const client = new LoadClient();
    try {
      const own = Array.from({ length: processes }, (_, at) => port + 1 + at);
      await untilShared(processes === 1 ? [port] : own, size.shards, keys);
      return await this.#load(service, client, keys);
    } finally {
      await client.close();
      await service.close();
    }
  }

  async #load(service: Server, client: LoadClient, keys: readonly string[]): Promise<Sample> {
    const { tiny, ms } = this.scale;
    const [request = '', ...also] = keys.map((key) => chat.request.replace(KEY, key));
    const { serialAt } = chat;
    const load = (requests: number | null, msMax: number) => {
      const task = { connections: CONNECTIONS, ms: msMax, requests, request, also, serialAt };
      return client.load(service, task);
    };
    const before = tiny
      ? await load(null, 1)
      : await load(WARM_CHATS * this.processes, WARM_MS_MAX);
    const loaded = await load(tiny ? TINY_REQUESTS : null, tiny ? ms : WINDOWS * ms);
    return {
      value: loaded.requests / (loaded.ms / 1000),
      errors: before.errors + loaded.errors,
      check: checkOf(lasting(loaded.body)),
      beside: {
        [CPU_MS]: (1000 * loaded.cpuS) / loaded.requests,
        'cores that the processes used': loaded.cpuS / (loaded.ms / 1000),
        'p50, ms': loaded.p50Ms,
        'p99, ms': loaded.p99Ms,
      },
    };
  }
}

const CPU_MS = 'CPU ms / chat';
const chat = chatRequest('What is the weather like in town 000000000 today?');
/** As long as that of one user alone. */
const keysOf = (users: number): string[] =>
  Array.from({ length: users }, (_, at) => `user-${at}`.padEnd(KEY.length, '-'));
