/**
 * Owns the comparison of one service on its data folder with the same service on PostgreSQL: creations, reads and chats a second.
 * It must never measure two services at the same time.
 *
 * `node dist/bench/postgres.js postgres://USER:PASSWORD@HOST:PORT/DATABASE`, with an empty database.
 */
import { pathToFileURL } from 'node:url';
import { chatRequest } from './support/chat.js';
import { LoadClient, type LoadTask, requestText, SERIAL } from './support/load.js';
import { manyCaches, type Server, startService } from './support/servers.js';

const LOAD_MS_MAX = 15_000;
const CREATE = requestText('POST', '/v1/caching', {
  model: 'svc-v1',
  messages: [{ role: 'system', content: 'You are a helpful assistant. Answer briefly.' }],
  name: `cache ${SERIAL}`,
});

const LIST = {
  requests: 10_000,
  request: requestText('GET', '/v1/caching?limit=5'),
  serialAt: null,
};

interface Figure {
  readonly what: string;
  readonly aSecond: number;
  readonly msEach: number;
  readonly errors: number;
}

type Load = Omit<LoadTask, 'port' | 'ms'>;

const loads: readonly { readonly what: string; readonly task: Load }[] = [
  { what: 'creations, one at a time', task: creation(1, 300) },
  { what: 'creations, 64 at once', task: creation(64, 1_920) },
  { what: 'lists of caches, 64 at once', task: { connections: 64, ...LIST } },
  {
    what: 'chats, 16 at once',
    task: { connections: 16, requests: 5_000, ...chatRequest(`Question ${SERIAL}`) },
  },
];

function creation(connections: number, requests: number): Load {
  return { connections, requests, request: CREATE, serialAt: CREATE.indexOf(SERIAL) };
}

/** @param store null: the data folder. @param share of the requests. */
export async function measureStore(store: string | null, share = 1): Promise<Figure[]> {
  const env = store === null ? {} : { PREFACE_STORE: store };
  const service = await startService({ core: 'server', config: manyCaches, env });
  const client = new LoadClient();
  try {
    const shared = (task: Load) => ({ ...task, requests: Math.ceil((task.requests ?? 0) * share) });
    const figures: Figure[] = [];
    for (const { what, task } of loads)
      figures.push(await measure(service, client, what, shared(task)));
    return figures;
  } finally {
    await client.close();
    await service.close();
  }
}

async function measure(
  service: Server,
  client: LoadClient,
  what: string,
  task: Load,
): Promise<Figure> {
  const loaded = await client.load(service, { ...task, ms: LOAD_MS_MAX });
  const { requests, errors } = loaded;
  return {
    what,
    aSecond: Math.round(requests / (loaded.ms / 1000)),
    msEach: Math.round((100 * loaded.waitedMs) / requests) / 100,
    errors,
  };
}

async function main(url: string | undefined): Promise<void> {
  if (url === undefined) throw new Error('the address of an empty database is needed');
  const folder = await measureStore(null);
  const postgres = await measureStore(url);
  const cells = ({ aSecond, msEach, errors }: Figure) =>
    `${aSecond} (${msEach} ms)${errors > 0 ? `, ${errors} errors` : ''}`;
  const rows = folder.flatMap((one, at) => {
    const other = postgres[at];
    return other ? [`| ${one.what} | ${cells(one)} | ${cells(other)} |`] : [];
  });
  const head = ['| a second (each) | data folder | PostgreSQL |', '|---|---|---|'];
  process.stdout.write(`${[...head, ...rows].join('\n')}\n`);
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) await main(process.argv[2]);
