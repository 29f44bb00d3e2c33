/**
 * Owns the question how often a hit gives the answer of a cold chat: always by default, and how often without that promise.
 * It must never compare sampled answers, nor count a chat as a hit that reused nothing.
 */
import { FIRST_NUMBER, Prefix } from './support/caches.js';
import { defaultWeights } from './support/counting.js';
import { firstContent } from './support/first-content.js';
import type { Question, Sample, Scale, Side } from './support/question.js';
import { type Server, startService } from './support/servers.js';

const PREFIX_TOKENS = 192;
const SAMPLE = 40;
const ANSWER_TOKENS = 32;

export const question: Question = {
  name: 'cache-exact',
  title: 'Hits that answer word for word as a cold chat does',
  async open(scale) {
    if (defaultWeights() === null) {
      return { skipped: 'the default weights are not here; `preface models pull` gets them' };
    }
    const threads = scale.tiny ? { PREFACE_THREADS: '1,1' } : {};
    const env = (exact: string) => ({ PREFACE_ENGINE: 'llama', PREFACE_EXACT: exact, ...threads });
    const exact = await startService({ core: 'any', env: env('true') });
    const fast = await startService({ core: 'any', env: env('false') });
    return {
      sides: [side('exact', exact, scale), side('not exact', fast, scale)],
      lines: [
        {
          label: 'exact: true',
          subject: 'exact',
          unit: '% of chats differ',
          floors: [],
          judged: 'value',
          better: 'less',
          must: 0,
          goal: 0,
        },
        {
          label: 'exact: false',
          subject: 'not exact',
          unit: '% of chats differ',
          floors: [],
          judged: 'value',
          better: 'less',
          must: null,
          goal: null,
        },
      ],
      notes: [
        `${SAMPLE} prompts, ${ANSWER_TOKENS} tokens of each answer, asked cold and by a hit.`,
      ],
      close: async () => {
        await Promise.all([exact.close(), fast.close()]);
      },
    };
  },
};

/** Measured once: the same weights give the same share. */
function side(name: string, server: Server, scale: Scale): Side {
  return { name, roundsMax: 1, measure: () => measure(server, scale) };
}

async function measure(server: Server, { tiny }: Scale): Promise<Sample> {
  const sample = tiny ? 1 : SAMPLE;
  const prefix = await Prefix.ofTokens(server, tiny ? 48 : PREFIX_TOKENS);
  let [same, differ, missed, coldMs, hitMs] = [0, 0, 0, 0, 0];
  for (let at = 0; at < sample; at++) {
    const number = FIRST_NUMBER + at;
    const body = prefix.chat(number, QUESTION, tiny ? 4 : ANSWER_TOKENS);
    const cold = await firstContent({ port: server.port, body });
    const { id, tokens } = await prefix.cache(server, number);
    const hit = await firstContent({ port: server.port, body, cache: id });
    if (hit.cachedTokens < tokens || cold.cachedTokens >= tokens) missed += 1;
    if (hit.text !== cold.text) differ += 1;
    same += sameLength(hit.text, cold.text) / cold.text.length / sample;
    coldMs += cold.ms / sample;
    hitMs += hit.ms / sample;
  }
  return {
    value: (differ / sample) * 100,
    errors: missed,
    check: `${sample} pairs`,
    beside: {
      '% of an answer is the same, mean': same * 100,
      'ms cold': coldMs,
      'ms by a hit': hitMs,
    },
  };
}

const QUESTION = 'Which words of this text matter most, and why do they?';

function sameLength(one: string, other: string): number {
  let at = 0;
  while (at < one.length && one[at] === other[at]) at++;
  return at;
}
