/**
 * Owns the question what a durable creation of a small cache costs: its latency alone, and its rate with 64 at once.
 * It must never count a creation that was acknowledged before it was on the disk.
 *
 * All caches have the same messages, so that one snapshot serves them: the record is measured, not the prefill.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { MODEL } from './support/chat.js';
import { LoadClient, requestText, SERIAL } from './support/load.js';
import { hasProc } from './support/processes.js';
import type { OpenQuestion, Question, Sample, Scale, Side } from './support/question.js';
import { RawStore } from './support/raw-store.js';
import { manyCaches, type Server, startService } from './support/servers.js';

const TOGETHER = 64;
/** Writes of one sample. All rounds together must stay below the bound on one owner's caches. */
const ALONE_WRITES = 300;
const TOGETHER_WRITES = 1_920;
/** Long enough for the echo engine to make the snapshot, so that the cache is ready. */
const ALONE_GAP_MS = 10;

export const question: Question = {
  name: 'cache-create',
  title: 'Durable creation of a small cache',
  async open(scale) {
    if (!hasProc) return { skipped: 'it needs /proc' };
    const folder = mkdtempSync(join(tmpdir(), 'preface-bench-'));
    const service = await startService({ core: 'server', config: manyCaches });
    const raw = await RawStore.open(folder);
    const client = new LoadClient();
    const close = async (): Promise<void> => {
      await Promise.all([client.close(), service.close(), raw.close()]);
      rmSync(folder, { recursive: true, force: true });
    };
    return { ...openQuestion({ service, raw, client, scale }), close };
  },
};

interface Parts {
  readonly service: Server;
  readonly raw: RawStore;
  readonly client: LoadClient;
  readonly scale: Scale;
}

function openQuestion({ service, raw, client, scale }: Parts): Omit<OpenQuestion, 'close'> {
  const few = (count: number) => (scale.tiny ? Math.ceil(count / 50) : count);
  const load = (request: string, connections: number, requests: number) => {
    const serial = request.indexOf(SERIAL);
    const gapMs = connections === 1 ? ALONE_GAP_MS : 0;
    const task = { request, connections, requests: few(requests), ms: LOAD_MS_MAX, gapMs };
    return client.load(service, { ...task, serialAt: serial < 0 ? null : serial });
  };
  const overHttp = (
    name: string,
    request: string,
    connections: number,
    requests: number,
  ): Side => ({
    name,
    measure: async (): Promise<Sample> => {
      const { ms, waitedMs, errors, body, ...loaded } = await load(request, connections, requests);
      const value = connections === 1 ? waitedMs / loaded.requests : loaded.requests / (ms / 1000);
      const beside = { 'µs CPU each': (loaded.cpuS * 1e6) / loaded.requests };
      return { value, errors, beside, check: Object.keys(JSON.parse(body) as object).join() };
    },
  });
  const onDisk = (name: string, together: number, writes: number): Side => ({
    name,
    measure: async (): Promise<Sample> => {
      const { ms, written } = await raw.write(few(writes), together);
      const value = together === 1 ? ms / written : written / (ms / 1000);
      return { value, errors: written === few(writes) ? 0 : 1, check: `${written} records` };
    },
  });
  return {
    sides: [
      overHttp('create, alone', CREATE, 1, ALONE_WRITES),
      onDisk('raw lmdb, alone', 1, ALONE_WRITES),
      overHttp('create, 64 at once', CREATE, TOGETHER, TOGETHER_WRITES),
      onDisk('raw lmdb, 64 at once', TOGETHER, TOGETHER_WRITES),
      overHttp('GET model, 64 at once', requestText('GET', `/v1/models/${MODEL}`), TOGETHER, GETS),
    ],
    lines,
    notes: [
      'An answer leaves only after its record is flushed to the disk, in both.',
      'One at a time: from a request to its answer. The next request follows after the prefill, which is not measured.',
    ],
  };
}

const lines: OpenQuestion['lines'] = [
  {
    label: 'one at a time',
    subject: 'create, alone',
    floors: ['raw lmdb, alone'],
    unit: 'ms',
    judged: 'ratio',
    better: 'less',
    // The bound is the raw write plus a fixed addition.
    must: 1,
    goal: 1,
    plus: { must: 1.5, goal: 0.7 },
  },
  {
    label: '64 at once',
    subject: 'create, 64 at once',
    floors: ['GET model, 64 at once'],
    unit: 'requests/s',
    judged: 'ratio',
    better: 'more',
    must: 0.25,
    goal: 0.5,
  },
  {
    label: '64 at once, beside lmdb',
    subject: 'create, 64 at once',
    floors: ['raw lmdb, 64 at once'],
    unit: 'requests/s',
    judged: 'ratio',
    better: 'more',
    must: null,
    goal: null,
  },
];

const LOAD_MS_MAX = 60_000;
const GETS = 20_000;
const CREATE = requestText('POST', '/v1/caching', {
  model: 'svc-v1',
  messages: [
    { role: 'system', content: 'You are a helpful assistant. Answer in one short sentence.' },
  ],
  name: `cache ${SERIAL}`,
});
