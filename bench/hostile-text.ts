/**
 * Owns the question how much longer hostile text takes to count than prose of the same size.
 * It must never hand the hostile text itself to the bare encoder at full size: it would take hours, or panic.
 */
import { BenchCounter, benchVocabulary, openRawEncoder } from './support/counting.js';
import { hostileTexts, prose } from './support/prose.js';
import type { Line, Question, Side } from './support/question.js';

const MEGABYTE = 2 ** 20;
const PROSE = 'prose';

export const question: Question = {
  name: 'hostile-text',
  title: 'Hostile text, 1 MB',
  async open(scale) {
    const vocabulary = benchVocabulary();
    const counter = new BenchCounter(vocabulary, 1);
    const raw = await openRawEncoder(vocabulary);
    const bytes = scale.tiny ? MEGABYTE / 16 : MEGABYTE;
    const count = (text: string) => {
      counter.newOwner();
      return counter.count([text]);
    };
    const plain = prose(bytes, 0);
    const hostile = [...hostileTexts(bytes)];
    return {
      sides: [
        side(PROSE, plain, count),
        side(RAW_PROSE, plain, async (text) => raw.encode(text).length),
        ...hostile.map(([name, text]) => side(name, text, count)),
      ],
      lines: [proseLine, ...hostile.map(([name]) => hostileLine(name))],
      notes: [`Vocabulary: ${vocabulary.name}. A ratio of 1 is as fast as prose.`],
      close: async () => {
        raw.free();
        await counter.close();
      },
    };
  },
};

const RAW_PROSE = 'raw encoder, prose';
const common = { unit: 'ms / MB', judged: 'ratio', better: 'less' } as const;
const proseLine: Line = {
  label: PROSE,
  subject: PROSE,
  floors: [RAW_PROSE],
  must: null,
  goal: null,
  ...common,
};

function hostileLine(subject: string): Line {
  return { label: subject, subject, floors: [PROSE], must: 4, goal: 2, ...common };
}

function side(name: string, text: string, count: (text: string) => Promise<number>): Side {
  const megabytes = Buffer.byteLength(text) / MEGABYTE;
  return {
    name,
    measure: async () => {
      const startedMs = performance.now();
      const tokens = await count(text);
      const value = (performance.now() - startedMs) / megabytes;
      return { value, errors: 0, check: `${tokens} tokens` };
    },
  };
}
