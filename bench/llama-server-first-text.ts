/**
 * Owns the question how soon the first text comes beside llama-server: cold, by a hit, and in the second turn of a chat.
 * It must never count a cold chat that reused anything, nor a hit that evaluated its prefix.
 */
import { FIRST_NUMBER, newQuestion, Prefix, type ReadyCache } from './support/caches.js';
import { CONTENDERS_NOTE, type Contender, Contenders } from './support/contenders.js';
import { defaultWeights } from './support/counting.js';
import { type FirstContent, firstContent } from './support/first-content.js';
import { MISSING } from './support/llama-server.js';
import type { OpenQuestion, Question, Sample, Scale } from './support/question.js';

const LENGTHS = [847, 1_653];
const TINY = [64];
/** The opening words of the template, which every prompt begins with. */
const COLD_TOKENS_MAX = 16;
const ANSWER_TOKENS = 2;
const TURN = { promptTokens: 280, answerTokens: 200 };
const TINY_TURN = { promptTokens: 64, answerTokens: 8 };
const TURN_NUMBER = 700_000;
const COLD_NUMBER = 500_000;

export const question: Question = {
  name: 'llama-server-first-text',
  title: 'Time to the first text beside llama-server',
  async open(scale) {
    const weights = defaultWeights();
    if (weights === null) {
      return { skipped: 'the default weights are not here; `preface models pull` gets them' };
    }
    const contenders = await Contenders.open(weights, scale);
    try {
      const opened = await openQuestion(contenders, scale);
      return { ...opened, close: () => contenders.close() };
    } catch (cause) {
      await contenders.close();
      throw cause;
    }
  },
};

async function openQuestion(
  contenders: Contenders,
  scale: Scale,
): Promise<Omit<OpenQuestion, 'close'>> {
  const ours = contenders.all.filter(({ name }) => name !== 'llama-server');
  const [first] = ours;
  if (first === undefined) throw new Error('no service runs');
  const lengths = scale.tiny ? TINY : LENGTHS;
  const turn = scale.tiny ? TINY_TURN : TURN;
  const prefixes = new Map<number, Prefix>();
  for (const length of [...lengths, turn.promptTokens])
    prefixes.set(length, await Prefix.ofTokens(first.server, length));
  const prefixOf = (length: number): Prefix => prefixes.get(length) as Prefix;
  const caches = new CachesOf(prefixOf);
  for (const contender of ours) for (const length of lengths) await caches.add(contender, length);
  const less = { unit: 'ms', better: 'less' } as const;
  return {
    sides: [
      ...lengths.flatMap((length) =>
        contenders.sides(`cold, ${length}`, (of) => cold(of, prefixOf(length))),
      ),
      ...lengths.flatMap((length) =>
        contenders.sides(`hit, ${length}`, (of) => caches.hit(of, length)),
      ),
      ...contenders.sides('second turn', (of, round) =>
        secondTurn(of, prefixOf(turn.promptTokens), turn.answerTokens, round),
      ),
    ],
    lines: [
      ...lengths.flatMap((length) =>
        contenders.lines(`cold, ${length}`, { ...less, must: 1.05, goal: 0.95 }),
      ),
      ...lengths.flatMap((length) =>
        contenders.lines(`hit, ${length}`, { ...less, must: 0.9, goal: 0.7 }),
      ),
      ...contenders.lines('second turn', { ...less, must: 1.2, goal: 1 }),
    ],
    notes: [
      CONTENDERS_NOTE,
      'A hit asks a new question right after another chat with the same prefix.',
      'A second turn follows its answer at once: no time passes in which the answer could be evaluated again.',
      ...(contenders.hasOther ? [] : [MISSING]),
    ],
  };
}

let colds = 0;

async function cold({ server }: Contender, prefix: Prefix): Promise<Sample> {
  const told = await firstContent({
    port: server.port,
    body: prefix.chat(COLD_NUMBER + colds++, newQuestion(), ANSWER_TOKENS),
  });
  return {
    value: told.ms,
    errors: told.cachedTokens <= COLD_TOKENS_MAX ? 0 : 1,
    check: `${told.promptTokens} tokens`,
  };
}

/** The caches of the services; llama-server has slots alone. */
class CachesOf {
  readonly #ids = new Map<string, ReadyCache>();

  constructor(private readonly prefixOf: (length: number) => Prefix) {}

  async add({ name, server }: Contender, length: number): Promise<void> {
    const cache = await this.prefixOf(length).cache(server, FIRST_NUMBER + length);
    this.#ids.set(`${name} ${length}`, cache);
  }

  async hit({ name, server }: Contender, length: number): Promise<Sample> {
    const cache = this.#ids.get(`${name} ${length}`);
    const named = cache === undefined ? {} : { cache: cache.id };
    const prefix = this.prefixOf(length);
    const ask = (): Promise<FirstContent> =>
      firstContent({
        port: server.port,
        body: prefix.chat(FIRST_NUMBER + length, newQuestion(), ANSWER_TOKENS),
        ...named,
      });
    await ask();
    const told = await ask();
    return {
      value: told.ms,
      errors: told.cachedTokens >= length * 0.9 ? 0 : 1,
      check: `${told.promptTokens} tokens`,
      beside: { 'tokens reused': told.cachedTokens },
    };
  }
}

async function secondTurn(
  { name, server }: Contender,
  prefix: Prefix,
  answerTokens: number,
  round: number,
): Promise<Sample> {
  const { port } = server;
  const start = prefix.chat(TURN_NUMBER + round, STORY, answerTokens) as {
    readonly messages: readonly object[];
  };
  const answer = await firstContent({ port, body: start });
  const messages = [
    ...start.messages,
    { role: 'assistant', content: answer.text },
    { role: 'user', content: 'And then?' },
  ];
  const body = { ...start, messages, max_tokens: ANSWER_TOKENS };
  const told = await firstContent({ port, body });
  return {
    value: told.ms,
    errors: told.cachedTokens >= answer.promptTokens * 0.9 ? 0 : 1,
    check: name,
    beside: {
      tokens: told.promptTokens,
      'tokens generated': answer.answerTokens,
      'tokens reused': told.cachedTokens,
    },
  };
}

const STORY = 'Tell me the whole story of a town by the sea, from the first house to this day.';
