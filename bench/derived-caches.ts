/**
 * Owns the question what caches that go on from one base cost, beside whole ones with the same messages.
 * It must never let a side find the texts of an earlier round in memory.
 */
import { cacheReady, call, FAMILY, Prefix, readyCache } from './support/caches.js';
import { defaultWeights } from './support/counting.js';
import type { Line, OpenQuestion, Question, Sample, Scale, Side } from './support/question.js';
import { type Server, startService } from './support/servers.js';

const SIZE = { base: 4_000, child: 300, children: 10 };
const TINY = { base: 64, child: 24, children: 2 };
/** Whole caches that share nothing take the longest, and each takes as long as the next. */
const APART = 1;
const FIRST_BASE = 300_000;
const FIRST_CHILD = 400_000;

export const question: Question = {
  name: 'derived-caches',
  title: `${SIZE.children} caches of ${SIZE.child} tokens behind a base of ${SIZE.base}`,
  async open(scale) {
    if (defaultWeights() === null) {
      return { skipped: 'the default weights are not here; `preface models pull` gets them' };
    }
    const threads = scale.tiny ? { PREFACE_THREADS: '1,1' } : {};
    const env = { PREFACE_ENGINE: 'llama', ...threads };
    const service = await startService({ core: 'any', env });
    try {
      return { ...(await openQuestion(service, scale)), close: () => service.close() };
    } catch (cause) {
      await service.close();
      throw cause;
    }
  },
};

async function openQuestion(
  service: Server,
  { tiny }: Scale,
): Promise<Omit<OpenQuestion, 'close'>> {
  const size = tiny ? TINY : SIZE;
  const base = await Prefix.ofTokens(service, size.base);
  const child = await Prefix.ofTokens(service, size.child);
  const saying = (at: number) => ({ role: 'user', content: child.text(FIRST_CHILD + at) });
  let bases = FIRST_BASE;
  const whole = async (number: number, at: number) =>
    (await readyCache(service, [...base.messages(number), saying(at)])).id;

  const derivedOnes = async () => {
    const { id } = await readyCache(service, base.messages(bases++));
    const ids = await inTurn(size.children, (at) => derived(service, id, saying(at)));
    return [id, ...ids];
  };
  const wholeOnes = async () => {
    const number = bases++;
    return await inTurn(size.children, (at) => whole(number, at));
  };
  const apart = async () => await inTurn(APART, (at) => whole(bases++, at));
  return {
    sides: [
      side(service, 'derived', size.children, derivedOnes),
      side(service, 'whole, one after the other', size.children, wholeOnes),
      side(service, 'whole, each at another time', APART, apart),
    ],
    lines: [line('whole, one after the other'), line('whole, each at another time')],
    notes: [
      'From the first creation until the last cache is ready, for each of the ten; the base is part of the derived ones.',
      'Whole caches that follow each other find their beginning in memory. At another time it is gone: there each has a beginning of its own.',
    ],
  };
}

function line(floor: string): Line {
  return {
    label: `beside ${floor}`,
    subject: 'derived',
    unit: 's a cache',
    floors: [floor],
    judged: 'ratio',
    better: 'less',
    must: null,
    goal: null,
  };
}

/** Measured once: a base takes its time. */
function side(
  service: Server,
  name: string,
  count: number,
  make: () => Promise<readonly string[]>,
): Side {
  const measure = async (): Promise<Sample> => {
    const startedMs = performance.now();
    const ids = await make();
    const ms = performance.now() - startedMs;
    const kept = await Promise.all(ids.map((id) => snapshotOf(service, id)));
    const sum = (pick: (of: Snapshot) => number) =>
      kept.reduce((total, each) => total + pick(each), 0) / count;
    return {
      value: ms / 1_000 / count,
      errors: 0,
      check: `${count} caches`,
      beside: {
        'tokens evaluated, a cache': sum((of) => of.evaluated_tokens),
        'MB on disk, a cache': sum((of) => of.bytes) / 1e6,
      },
    };
  };
  return { name, roundsMax: 1, measure };
}

async function inTurn<Made>(count: number, make: (at: number) => Promise<Made>): Promise<Made[]> {
  const all: Made[] = [];
  for (let at = 0; at < count; at++) all.push(await make(at));
  return all;
}

async function derived(service: Server, base: string, message: object): Promise<string> {
  const body = { model: FAMILY, base, messages: [message] };
  const { id } = await call<{ id: string }>(service, 'POST', '/v1/caching', body);
  return (await cacheReady(service, id)).id;
}

interface Snapshot {
  readonly bytes: number;
  readonly evaluated_tokens: number;
}

async function snapshotOf(service: Server, id: string): Promise<Snapshot> {
  const { snapshot } = await call<{ snapshot: Snapshot }>(service, 'GET', `/v1/caching/${id}`);
  return snapshot;
}
