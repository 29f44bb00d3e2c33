/**
 * Owns the question what the service costs the engine: tokens per second, with one stream and with eight.
 * It must never let a prompt be reused: both sides evaluate every prompt in full.
 */
import { availableParallelism } from 'node:os';
import { MODEL } from './support/chat.js';
import { defaultWeights } from './support/counting.js';
import type { Line, Question, Sample, Scale, Side } from './support/question.js';
import { RawEngine } from './support/raw-engine.js';
import { KEY, type Server, startService } from './support/servers.js';

const STREAMS = [1, 8];

export const question: Question = {
  name: 'engine-tokens',
  title: 'Engine tokens through the service',
  async open(scale) {
    const weights = defaultWeights();
    if (weights === null) {
      return { skipped: 'the default weights are not here; `preface models pull` gets them' };
    }
    // A tiny run judges no figure, so it need not find the best number of threads.
    const threads = scale.tiny ? { PREFACE_THREADS: '1,1' } : {};
    const env = { PREFACE_ENGINE: 'llama', ...threads };
    const service = await startService({ core: 'any', env });
    const raw = await RawEngine.open(weights);
    const floors = STREAMS.flatMap((streams) => rawSides(raw, streams, scale));
    return {
      sides: [...STREAMS.map((streams) => serviceSide(service, streams, scale)), ...floors],
      lines: STREAMS.map((streams) => line(streams, floors)),
      notes: [
        'The floor is the best of the library’s own settings of threads and sequences.',
        'Nothing is pinned: the engine wants all cores, and its client sleeps.',
      ],
      close: async () => {
        await Promise.all([service.close(), raw.close()]);
      },
    };
  },
};

function line(streams: number, floors: readonly Side[]): Line {
  const names = floors.map(({ name }) => name).filter((name) => name.startsWith(`raw ${streams} `));
  return {
    label: nameOf(streams),
    subject: nameOf(streams),
    unit: 'tokens/s',
    floors: names,
    judged: 'ratio',
    better: 'more',
    must: 0.95,
    goal: 0.99,
  };
}

const nameOf = (streams: number): string => (streams === 1 ? '1 stream' : `${streams} streams`);

// ------------------------------------------------------------------- sides

function rawSides(raw: RawEngine, streams: number, scale: Scale): Side[] {
  const cores = availableParallelism();
  const threads = scale.tiny ? [1] : [...new Set([1, Math.max(1, cores >> 1), cores])];
  // Four sequences may be as fast as eight, while the other streams wait: both are tried.
  const sequences = [...new Set([Math.min(4, streams), streams])].slice(0, scale.tiny ? 1 : 2);
  return sequences.flatMap((at) =>
    threads.map((count) => ({
      name: `raw ${streams} on ${at} sequences, ${count} threads`,
      measure: async (round): Promise<Sample> => {
        const prompts = contents(round, streams).map(chatMl);
        const task = { prompts, sequences: at, threads: count, tokens: tokensOf(scale) };
        const { ms, tokens, promptTokens } = await raw.decode(task);
        return sample(tokens, ms, promptTokens);
      },
    })),
  );
}

function serviceSide(service: Server, streams: number, scale: Scale): Side {
  const measure = async (round: number): Promise<Sample> => {
    const startedMs = performance.now();
    const asked = contents(round, streams).map((content) => chat(service, content, scale));
    const usages = await Promise.all(asked);
    const ms = performance.now() - startedMs;
    const sum = (pick: (usage: Usage) => number) =>
      usages.reduce((total, usage) => total + pick(usage), 0);
    const reused = sum(({ cached_tokens = 0 }) => cached_tokens);
    if (reused > REUSE_MAX * streams) throw new Error(`${reused} prompt tokens were reused`);
    return sample(
      sum((usage) => usage.completion_tokens),
      ms,
      sum((usage) => usage.prompt_tokens),
    );
  };
  return { name: nameOf(streams), measure };
}

/** The words that every prompt of the template begins with. */
const REUSE_MAX = 16;

function sample(tokens: number, ms: number, promptTokens: number): Sample {
  const value = tokens / (ms / 1000);
  return { value, errors: tokens === 0 ? 1 : 0, check: `${promptTokens} prompt tokens` };
}

interface Usage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly cached_tokens?: number;
}

/** Reads the answer as a stream, as a user does; the last chunk holds the usage. */
async function chat(service: Server, [system, user]: Content, scale: Scale): Promise<Usage> {
  const response = await fetch(`http://127.0.0.1:${service.port}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
    body: JSON.stringify({
      model: MODEL,
      messages: [
        { role: 'system', content: system },
        { role: 'user', content: user },
      ],
      temperature: 0,
      max_tokens: tokensOf(scale),
      stream: true,
      stream_options: { include_usage: true },
    }),
  });
  const last = (await response.text()).split('\n\n').at(-3) ?? '';
  const { usage } = JSON.parse(last.slice('data: '.length)) as { usage: Usage };
  return usage;
}

const tokensOf = ({ tiny }: Scale): number => (tiny ? 4 : 64);

type Content = readonly [system: string, user: string];

/** Prompts that differ from the first word on, with the same number of tokens each. */
function contents(round: number, streams: number): Content[] {
  return Array.from({ length: streams }, (_, stream) => {
    const number = 100_000 + (round + 1) * 100 + stream;
    return [
      `${number} is your number. You tell long stories.`,
      'Tell me the whole story of a town by the sea, from the first house to this day.',
    ];
  });
}

function chatMl([system, user]: Content): string {
  const turns = `<|im_start|>system\n${system}<|im_end|>\n<|im_start|>user\n${user}<|im_end|>\n`;
  return `${turns}<|im_start|>assistant\n`;
}
