/**
 * Owns the question whether look-ups stay as fast, and memory as small, when a user has very many caches.
 * It must never measure an owner whose caches are still being made.
 */
import { readyCache } from './support/caches.js';
import { httpSide } from './support/http-side.js';
import { LoadClient, requestText, SERIAL } from './support/load.js';
import { hasProc, memoryMegabytes } from './support/processes.js';
import type { Line, Question, Scale, Side } from './support/question.js';
import { manyCaches, type Server, startService } from './support/servers.js';

interface Owner {
  readonly caches: number;
  readonly service: Server;
  readonly middle: string;
}

const COUNTS = [100, 1_000, 10_000];

export const question: Question = {
  name: 'cache-many',
  title: 'Many caches of one owner',
  async open(scale) {
    if (!hasProc) return { skipped: 'it needs /proc' };
    const client = new LoadClient();
    const owners: Owner[] = [];
    for (const count of scale.tiny ? [10, 50] : COUNTS) {
      owners.push(await openOwner(client, count));
    }
    const names = ['get', 'list'] as const;
    return {
      sides: owners.flatMap((owner) => names.map((name) => sideOf(name, owner, client, scale))),
      lines: names.flatMap((name) => linesOf(name, owners)),
      curves: {
        across: 'caches of the owner',
        unit: 'requests / CPU s',
        series: names.map((name) => ({
          name,
          points: owners.map(({ caches }) => ({ x: caches, side: nameOf(name, caches) })),
        })),
      },
      notes: ['A get asks for one in the middle, a list for the first page of 20.'],
      close: async () => {
        await Promise.all([client.close(), ...owners.map(({ service }) => service.close())]);
      },
    };
  },
};

const nameOf = (name: string, caches: number): string => `${name}, ${caches} caches`;

function sideOf(name: 'get' | 'list', owner: Owner, client: LoadClient, scale: Scale): Side {
  const { service, caches, middle } = owner;
  const path = name === 'get' ? `/v1/caching/${middle}` : '/v1/caching?limit=20';
  const request = requestText('GET', path);
  const side = httpSide({ name, server: service, client, request, serialAt: null, scale });
  return {
    name: nameOf(name, caches),
    measure: async (round) => {
      const sample = await side.measure(round);
      return {
        ...sample,
        beside: { ...sample.beside, 'MB, main process': memoryMegabytes([service.pid]) },
      };
    },
  };
}

/** Ten times as many caches may cost one or two more steps in a tree, and no more. */
function linesOf(name: string, [fewest, ...more]: readonly Owner[]): Line[] {
  const floors = [nameOf(name, fewest?.caches ?? 0)];
  return more.map(({ caches }) => ({
    label: nameOf(name, caches),
    subject: nameOf(name, caches),
    unit: 'requests / CPU s',
    floors,
    judged: 'ratio',
    better: 'more',
    must: 0.8,
    goal: 0.95,
  }));
}

/** An owner on a separate service, so that its memory is that of these caches. */
async function openOwner(client: LoadClient, caches: number): Promise<Owner> {
  const service = await startService({ core: 'server', config: manyCaches });
  await createSome(client, service, caches >> 1);
  const { id } = await readyCache(service, MESSAGES);
  await createSome(client, service, caches - (caches >> 1) - 1);
  // Prefills of one snapshot run in turn: when a later cache is ready, so are these.
  await readyCache(service, MESSAGES);
  return { caches, service, middle: id };
}

async function createSome(client: LoadClient, service: Server, count: number): Promise<void> {
  const load = { connections: 64, ms: CREATE_MS_MAX, requests: count };
  const made = await client.load(service, {
    ...load,
    request: CREATE,
    serialAt: CREATE.indexOf(SERIAL),
  });
  if (made.errors > 0 || made.requests < count) {
    throw new Error(`of ${count} caches ${made.requests} were made, ${made.errors} with errors`);
  }
}

const CREATE_MS_MAX = 60_000;
const MESSAGES = [{ role: 'system', content: 'You are a helpful assistant. Answer at length.' }];
const CREATE = requestText('POST', '/v1/caching', {
  model: 'svc-v1',
  messages: MESSAGES,
  name: `cache ${SERIAL}`,
});
