/**
 * Owns the question how fast tokens are counted, beside the bare encoder on one thread.
 * It must never count a text twice for one owner, except on the side that measures it.
 */
import { availableParallelism } from 'node:os';
import {
  BenchCounter,
  benchVocabulary,
  openRawEncoder,
  type Vocabulary,
} from './support/counting.js';
import { prose } from './support/prose.js';
import type { Line, Question, Sample, Scale, Side } from './support/question.js';

/** Chats of one message each; and a chat that grows by one message per turn and is sent in full each time. */
const CHATS = 128;
const CHAT_BYTES = 8_192;
const TURNS = 24;
const TURN_BYTES = 2_048;

export const question: Question = {
  name: 'token-count',
  title: 'Token counting',
  async open(scale) {
    const vocabulary = benchVocabulary();
    const texts = Array.from({ length: scale.tiny ? 4 : CHATS }, (_, seed) => [
      prose(CHAT_BYTES, seed),
    ]);
    const turns = Array.from({ length: scale.tiny ? 3 : TURNS }, (_, seed) =>
      prose(TURN_BYTES, 1_000 + seed),
    );
    const conversation = turns.map((_, turn) => turns.slice(0, turn + 1));
    const raw = await openRawEncoder(vocabulary);
    const rawCount = async (chat: readonly string[]) =>
      chat.reduce((sum, text) => sum + raw.encode(text).length, 0);
    const counters = [1, 2].map((threads) => new BenchCounter(vocabulary, threads));
    const [one, two] = counters as [BenchCounter, BenchCounter];
    return {
      sides: [
        side('raw encoder', texts, rawCount),
        side('1 thread', texts, counting(one)),
        side('2 threads', texts, counting(two)),
        side('raw encoder, growing chat', conversation, rawCount),
        side('growing chat', conversation, counting(one)),
      ],
      lines: lines(),
      notes: notes(vocabulary, scale),
      close: async () => {
        raw.free();
        await Promise.all(counters.map((counter) => counter.close()));
      },
    };
  },
};

function lines(): Line[] {
  const common = { unit: 'MB/s', judged: 'ratio', better: 'more' } as const;
  const grown = ['raw encoder, growing chat'];
  return [
    {
      label: '1 thread',
      subject: '1 thread',
      floors: ['raw encoder'],
      must: 0.9,
      goal: null,
      ...common,
    },
    {
      label: '2 threads',
      subject: '2 threads',
      floors: ['raw encoder'],
      must: 1.8,
      goal: null,
      ...common,
    },
    {
      label: 'growing chat',
      subject: 'growing chat',
      floors: grown,
      must: null,
      goal: 3,
      ...common,
    },
  ];
}

function notes({ name }: Vocabulary, { tiny }: Scale): string[] {
  const few = availableParallelism() < 3 && !tiny;
  return [
    `Vocabulary: ${name}; the raw encoder is @dqbd/tiktoken on one thread.`,
    ...(few ? ['Two threads share two cores with the process that hands them their work.'] : []),
  ];
}

type Chats = readonly (readonly string[])[];
type Count = (chat: readonly string[]) => Promise<number>;

/** Each measurement has a new owner; the turns of a growing chat are sequential, other chats concurrent. */
function counting(counter: BenchCounter): { newOwner(): void; count: Count } {
  return { newOwner: () => counter.newOwner(), count: (chat) => counter.count(chat) };
}

function side(name: string, chats: Chats, how: Count | { newOwner(): void; count: Count }): Side {
  const { newOwner, count } = typeof how === 'function' ? { newOwner() {}, count: how } : how;
  const bytes = chats.flat().reduce((sum, text) => sum + text.length, 0);
  const grows = chats.some(({ length }) => length > 1);
  const measure = async (): Promise<Sample> => {
    newOwner();
    const startedMs = performance.now();
    const counts = grows ? await inTurn(chats, count) : await Promise.all(chats.map(count));
    const ms = performance.now() - startedMs;
    const tokens = counts.reduce((sum, each) => sum + each, 0);
    return { value: bytes / 1e3 / ms, errors: 0, check: `${tokens} tokens` };
  };
  return { name, measure };
}

async function inTurn(chats: Chats, count: Count): Promise<number[]> {
  const counts: number[] = [];
  for (const chat of chats) counts.push(await count(chat));
  return counts;
}
