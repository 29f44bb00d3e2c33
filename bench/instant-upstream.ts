/**
 * Owns the question what a chat costs that another server answers at once: what it takes longer than straight there, and
 * how many a core takes.
 * It must never let the upstream or the client use the service's core.
 */
import { chatRequest, MODEL } from './support/chat.js';
import { checkOf } from './support/check.js';
import { httpSide, lasting } from './support/http-side.js';
import { LoadClient } from './support/load.js';
import { hasProc } from './support/processes.js';
import type { OpenQuestion, Question, Sample, Scale, Side } from './support/question.js';
import { type Server, startRaw, startService } from './support/servers.js';

export const question: Question = {
  name: 'instant-upstream',
  title: 'Chat through engine-openai, whose upstream answers at once',
  async open(scale) {
    if (!hasProc) return { skipped: 'it needs /proc' };
    const upstream = await startRaw('client', { type: 'events', body: ANSWER });
    const url = `http://127.0.0.1:${upstream.port}/v1`;
    const model = { engine: 'openai', tokenizer: 'bytes', upstreams: [{ url }] };
    const service = await startService({ core: 'server', config: { models: { [MODEL]: model } } });
    return openQuestion(scale, upstream, service);
  },
};

const QUESTION = 'What is the weather like in town 000000000 today?';
const CONNECTIONS = 64;
const TINY_REQUESTS = 32;

function chunk(rest: object): string {
  const head = { id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1_800_000_000 };
  return `data: ${JSON.stringify({ ...head, model: MODEL, ...rest })}\n\n`;
}

const said = (delta: object, reason: string | null = null) =>
  chunk({ choices: [{ index: 0, delta, finish_reason: reason }] });

/** As vLLM writes it. */
const ANSWER = [
  said({ role: 'assistant', content: '' }),
  ...['It ', 'is ', 'warm ', 'and ', 'dry.'].map((content) => said({ content })),
  said({}, 'stop'),
  chunk({ choices: [], usage: { prompt_tokens: 40, completion_tokens: 5, total_tokens: 45 } }),
  'data: [DONE]\n\n',
].join('');

function openQuestion(scale: Scale, upstream: Server, service: Server): OpenQuestion {
  const client = new LoadClient();
  const servers = { client, upstream, service, scale };
  const loaded = { client, server: service, scale, ...chatRequest(QUESTION) };
  const own = { floors: [], judged: 'value' } as const;
  const waits = { ...own, unit: 'ms', better: 'less' } as const;
  return {
    sides: [
      waitSide(servers, 'p50Ms'),
      waitSide(servers, 'p99Ms'),
      httpSide({ ...loaded, name: 'rate', connections: CONNECTIONS }),
    ],
    lines: [
      { ...waits, label: 'added at p50, 1 connection', subject: 'p50', must: 0.35, goal: 0.25 },
      { ...waits, label: 'added at p99, 1 connection', subject: 'p99', must: 1.5, goal: 1 },
      {
        ...own,
        label: `${CONNECTIONS} connections`,
        subject: 'rate',
        unit: 'requests / CPU s',
        better: 'more',
        must: 9_000,
        goal: 12_000,
      },
    ],
    notes: [
      'The CPU is that of all processes of the service; the upstream runs beside the client.',
    ],
    close: async () => {
      await Promise.all([client.close(), service.close(), upstream.close()]);
    },
  };
}

interface Servers {
  readonly client: LoadClient;
  readonly upstream: Server;
  readonly service: Server;
  readonly scale: Scale;
}

/** Half of the time straight, half through the service. */
function waitSide({ client, upstream, service, scale }: Servers, part: 'p50Ms' | 'p99Ms'): Side {
  const task = {
    ...chatRequest(QUESTION),
    connections: 1,
    ms: scale.ms / 2,
    requests: scale.tiny ? TINY_REQUESTS : null,
  };
  return {
    name: part.slice(0, 3),
    async measure(): Promise<Sample> {
      const straight = await client.load(upstream, task);
      const through = await client.load(service, task);
      return {
        value: through[part] - straight[part],
        errors: straight.errors + through.errors,
        check: checkOf(lasting(through.body)),
        beside: { 'straight, ms': straight[part], 'through, ms': through[part] },
      };
    },
  };
}
