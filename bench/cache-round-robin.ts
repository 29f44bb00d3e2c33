/**
 * Owns the question what happens when there are more caches than fit into memory: chats use them in turn.
 * It must never give one side more bytes for its sequences than the other.
 */
import { FIRST_NUMBER, newQuestion, Prefix, type ReadyCache } from './support/caches.js';
import { defaultWeights } from './support/counting.js';
import { type FirstContent, firstContent } from './support/first-content.js';
import { llamaServerPath, MISSING, startLlamaServer } from './support/llama-server.js';
import { memoryMegabytes } from './support/processes.js';
import type { Line, OpenQuestion, Question, Sample, Scale, Side } from './support/question.js';
import { type Server, startService } from './support/servers.js';

const WINDOW = 8_192;
const SLOTS = 4;
/** Enough for four sequences of that window, their scores and a little more. */
const MEMORY = '900MiB';
const ANSWER_TOKENS = 2;
/** The opening words of the template, which every prompt begins with. */
const COLD_TOKENS_MAX = 16;

export const question: Question = {
  name: 'cache-round-robin',
  title: `16 caches of 2 000 tokens in turn, memory for ${SLOTS}`,
  async open(scale) {
    const weights = defaultWeights();
    if (weights === null) {
      return { skipped: 'the default weights are not here; `preface models pull` gets them' };
    }
    const threads = scale.tiny ? { PREFACE_THREADS: '1,1', PREFACE_SLOTS: '2' } : {};
    const env = { PREFACE_ENGINE: 'llama', PREFACE_MEMORY: MEMORY, PREFACE_SLOTS: String(SLOTS) };
    const service = await startService({ core: 'any', env: { ...env, ...threads } });
    const path = llamaServerPath();
    const options = { weights, window: WINDOW, slots: SLOTS };
    const other = path === null ? null : await startLlamaServer({ path, ...options });
    const close = async (): Promise<void> => {
      await Promise.all([service.close(), other?.close()]);
    };
    try {
      return { ...(await openQuestion(scale, service, other)), close };
    } catch (cause) {
      await close();
      throw cause;
    }
  },
};

async function openQuestion(
  scale: Scale,
  service: Server,
  other: Server | null,
): Promise<Omit<OpenQuestion, 'close'>> {
  const [caches, tokens] = scale.tiny ? [3, 48] : [16, 2_048];
  const prefix = await Prefix.ofTokens(service, tokens);
  const made: ReadyCache[] = [];
  const cold: FirstContent[] = [];
  for (let at = 0; at < caches; at++) {
    // This chat is one of the cold ones, and the cache reuses what it evaluated.
    const body = prefix.chat(FIRST_NUMBER + at, newQuestion(), ANSWER_TOKENS);
    cold.push(await firstContent({ port: service.port, body }));
    made.push(await prefix.cache(service, FIRST_NUMBER + at));
  }
  const round = (server: Server, named: boolean) => () => turns(server, prefix, made, named);
  return {
    sides: [
      { name: 'in turn', measure: round(service, true) },
      coldSide(cold),
      ...(other === null
        ? []
        : [{ name: 'llama-server', roundsMax: 1, measure: round(other, false) }]),
    ],
    lines: [
      line('in turn', 'cold', { must: null, goal: null }),
      ...(other === null ? [] : [line('in turn', 'llama-server', { must: 1, goal: 0.5 })]),
    ],
    notes: [
      'The figure is the mean over one turn of all caches. Beyond memory the service has its files.',
      ...(other === null ? [MISSING] : ['llama-server has as many slots, and no host cache.']),
    ],
  };
}

function line(subject: string, floor: string, bounds: Pick<Line, 'must' | 'goal'>): Line {
  return {
    label: `time to the first text, ${subject}`,
    subject,
    unit: 'ms',
    floors: [floor],
    judged: 'ratio',
    better: 'less',
    ...bounds,
  };
}

async function turns(
  server: Server,
  prefix: Prefix,
  caches: readonly ReadyCache[],
  named: boolean,
): Promise<Sample> {
  const told: FirstContent[] = [];
  for (const [at, { id }] of caches.entries()) {
    const body = prefix.chat(FIRST_NUMBER + at, newQuestion(), ANSWER_TOKENS);
    told.push(await firstContent({ port: server.port, body, ...(named ? { cache: id } : {}) }));
  }
  const saved = told.map(({ cachedTokens }) => cachedTokens);
  const missed = told.filter(({ cachedTokens }, at) => cachedTokens < (caches[at]?.tokens ?? 0));
  return {
    value: told.reduce((sum, { ms }) => sum + ms, 0) / told.length,
    errors: named ? missed.length : 0,
    check: `${told[0]?.promptTokens} tokens`,
    beside: {
      'tokens reused, mean': saved.reduce((sum, each) => sum + each, 0) / saved.length,
      'ms at most': Math.max(...told.map(({ ms }) => ms)),
      'MB of memory': memoryMegabytes(server.tree()),
    },
  };
}

/** The cold chats were measured while the caches were made: one for each round, the last one first. */
function coldSide(cold: FirstContent[]): Side {
  const measure = async (): Promise<Sample> => {
    const told = cold.pop();
    if (told === undefined) throw new Error('there are fewer cold chats than rounds');
    const errors = told.cachedTokens <= COLD_TOKENS_MAX ? 0 : 1;
    return { value: told.ms, errors, check: `${told.promptTokens} tokens` };
  };
  return { name: 'cold', roundsMax: cold.length, measure };
}
