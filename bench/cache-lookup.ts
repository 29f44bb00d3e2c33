/**
 * Owns the question what the cache look-up costs a chat that finds no cache.
 * It must never compare two processes: differently compiled code differs by more than the look-up costs.
 */
import { call, readyCache } from './support/caches.js';
import { chatRequest } from './support/chat.js';
import { checkOf } from './support/check.js';
import { lasting } from './support/http-side.js';
import { LoadClient } from './support/load.js';
import { hasProc } from './support/processes.js';
import type { Line, Question, Sample, Scale, Side } from './support/question.js';
import { KEY, type Server, startService } from './support/servers.js';

const CONNECTIONS = 32;
/** Turns of each round, so that a slow moment of the machine affects all sides alike. */
const TURNS = 10;
const CACHES = 1_000;
/** The key of a user without caches; as long as the other key. */
const OTHER_KEY = 'key-of-others';

const OFF = 'no caches';
const NONE_NAMED = `${CACHES} caches, none named`;
const NO_MATCH = 'one named that does not match';
const UNKNOWN = 'one named that is not there';

export const question: Question = {
  name: 'cache-lookup',
  title: 'A chat that finds nothing in the caches, echo engine',
  async open(scale) {
    if (!hasProc) return { skipped: 'it needs /proc' };
    const env = { PREFACE_API_KEYS: `bench:${KEY},others:${OTHER_KEY}` };
    const service = await startService({ core: 'server', env });
    const client = new LoadClient();
    const { request, serialAt } = chatRequest(QUESTION);
    const { id } = await readyCache(service, MESSAGES);
    await createCaches(service, scale.tiny ? 20 : CACHES);
    const turns = new Turns({
      service,
      client,
      scale,
      serialAt,
      requests: new Map([
        [OFF, request.replace(KEY, OTHER_KEY)],
        [NONE_NAMED, request],
        [NO_MATCH, naming(request, id)],
        [UNKNOWN, naming(request, `${id.slice(0, -4)}0000`)],
      ]),
    });
    return {
      sides: turns.sides(),
      lines: [NONE_NAMED, NO_MATCH, UNKNOWN].map(lineOf),
      notes: [
        'Both users ask the same process in turns; one has caches, the other has none.',
        'A chat that names a cache of its owner also notes the miss in its record.',
      ],
      close: async () => {
        await Promise.all([client.close(), service.close()]);
      },
    };
  },
};

const QUESTION = 'What is the weather like in town 000000000 today?';
const MESSAGES = [{ role: 'system', content: 'You are a helpful assistant. Answer at length.' }];

function lineOf(subject: string): Line {
  return {
    label: subject,
    subject,
    unit: 'requests / CPU s',
    floors: [OFF],
    judged: 'ratio',
    better: 'more',
    must: 0.99,
    goal: 0.997,
  };
}

/** The header moves the serial digits, which come later in the text. */
function naming(request: string, id: string): string {
  return request.replace('\r\n\r\n', `\r\nx-svc-context-cache: ${id}\r\n\r\n`);
}

async function createCaches(service: Server, count: number): Promise<void> {
  for (let made = 0; made < count; made++) {
    const metadata = { number: String(made) };
    await call(service, 'POST', '/v1/caching', { model: 'svc-v1', messages: MESSAGES, metadata });
  }
}

interface TurnsParts {
  readonly service: Server;
  readonly client: LoadClient;
  readonly scale: Scale;
  readonly serialAt: number;
  /** The request of each side. */
  readonly requests: ReadonlyMap<string, string>;
}

/** All sides of a round are measured together, slice by slice. */
class Turns {
  #last: { round: number; samples: Promise<ReadonlyMap<string, Sample>> } | null = null;

  constructor(readonly parts: TurnsParts) {}

  sides(): Side[] {
    return [...this.parts.requests.keys()].map((name) => ({
      name,
      measure: async (round) => {
        if (this.#last?.round !== round) this.#last = { round, samples: this.#measure() };
        const sample = (await this.#last.samples).get(name);
        if (sample === undefined) throw new Error(`no side is called '${name}'`);
        return sample;
      },
    }));
  }

  async #measure(): Promise<ReadonlyMap<string, Sample>> {
    const names = [...this.parts.requests.keys()];
    const sums = new Map(
      names.map((name) => [name, { requests: 0, cpuS: 0, errors: 0, body: '' }]),
    );
    const turns = this.parts.scale.tiny ? 1 : TURNS;
    for (let turn = 0; turn < turns; turn++) {
      // Alternating order, so that no side is always the first.
      for (const name of turn % 2 === 0 ? names : [...names].reverse()) {
        const { requests, cpuS, errors, body } = await this.#slice(name);
        const sum = sums.get(name);
        if (sum) Object.assign(sum, { body, requests: sum.requests + requests });
        if (sum) Object.assign(sum, { cpuS: sum.cpuS + cpuS, errors: sum.errors + errors });
      }
    }
    return new Map(
      [...sums].map(([name, { requests, cpuS, errors, body }]) => [
        name,
        { value: requests / cpuS, errors, check: checkOf(lasting(body)) },
      ]),
    );
  }

  #slice(name: string) {
    const { service, client, scale, serialAt, requests } = this.parts;
    const request = requests.get(name) ?? '';
    return client.load(service, {
      request,
      connections: scale.tiny ? 4 : CONNECTIONS,
      ms: scale.ms / TURNS,
      requests: scale.tiny ? 64 : null,
      serialAt: serialAt + request.length - (requests.get(OFF)?.length ?? 0),
    });
  }
}
