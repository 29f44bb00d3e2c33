/**
 * Owns the proof for the lines that clients really put in front of their prompts: each is named with its place and its cost,
 * and with the rule on the next request reuses what stands behind it.
 * It must see prompts only as a client sends them; the service runs in this process.
 */
import t from 'tap';
import { model } from '../support/chat-client.js';
import { block, kept } from '../support/messages-client.js';
import { openService, type TestService } from '../support/service.js';
import { shallowEnv } from '../support/shallow-weights.js';
import { skipWithoutWeights } from '../support/weights.js';

t.setTimeout(300_000);

const rules = Array.from(
  { length: 24 },
  (_, at) => `Rule ${at}: the keeper of house ${at * 7} answers from the handbook alone.`,
).join('\n');

interface Client {
  readonly name: string;
  /** As of its request number `at`. */
  readonly line: (at: number) => string;
  /** What the client writes in front of the line, and the field that is named. */
  readonly before: string;
  readonly field: string;
  /** Characters of the line that are always the same. */
  readonly same: string;
}

const content = 'messages[0].content';
const pad = (at: number) => String(10 + at);

const clients: readonly Client[] = [
  {
    name: 'Claude Code, its billing mark',
    line: (at) =>
      `x-anthropic-billing-header: cc_version=2.1.177.0${at}c; cc_entrypoint=cli; cch=${at}fa69;`,
    before: '',
    field: 'system',
    same: 'x-anthropic-billing-header: cc_version=2.1.177.0',
  },
  {
    name: 'Open WebUI, {{CURRENT_TIME}}',
    line: (at) => `**Current Time:** 02:${pad(at)}:31 PM`,
    before:
      'You are a context-aware assistant. Consider the current date.\n\n**Current Date:** 2026-11-23\n',
    field: content,
    same: '**Current Time:** 02:1',
  },
  {
    name: 'Open WebUI, {{CURRENT_DATETIME}}',
    line: (at) => `Current date/time: 2026-11-23 02:${pad(at)}:31 PM`,
    before: '',
    field: content,
    same: 'Current date/time: 2026-11-23 02:1',
  },
  {
    name: 'n8n, {{ $now }}',
    line: (at) => `Today is 2026-11-23T14:${pad(at)}:31.184+00:00`,
    before: 'You are a helpful assistant.\n',
    field: content,
    same: 'Today is 2026-11-23T14:1',
  },
  {
    name: 'a clock in words',
    line: (at) => `The current time is Monday, November 23, 2026 at 2:${pad(at)} PM.`,
    before: '',
    field: content,
    same: 'The current time is Monday, November 23, 2026 at 2:1',
  },
  {
    name: 'a clock as `date` prints it',
    line: (at) => `Now: Mon Nov 23 14:${pad(at)}:31 UTC 2026`,
    before: '',
    field: content,
    same: 'Now: Mon Nov 23 14:1',
  },
];

interface Said {
  readonly advice: string | null;
  readonly cached: number;
}

interface Usage {
  readonly cached_tokens?: number;
  readonly cache_read_input_tokens?: number;
}

/** A request as that client sends it. */
async function ask(service: TestService, client: Client, at: number, headers = {}): Promise<Said> {
  const isBlocks = client.field.startsWith('system');
  const question = { role: 'user', content: `Hello for the ${at}th time` };
  const [path, body] = isBlocks
    ? ['/messages', blocksOf(client, at, question)]
    : ['/chat/completions', textOf(client, at, question)];
  const response = await service.call('POST', path, { model, max_tokens: 4, ...body }, headers);
  const text = await response.text();
  if (response.status !== 200) throw new Error(text);
  const { usage } = JSON.parse(text) as { readonly usage: Usage };
  return {
    advice: response.headers.get('svc-context-cache-advice'),
    cached: usage.cache_read_input_tokens ?? usage.cached_tokens ?? 0,
  };
}

function textOf({ before, line }: Client, at: number, question: object): object {
  const system = { role: 'system', content: `${before}${line(at)}\n${rules}` };
  return { messages: [system, question] };
}

function blocksOf({ line }: Client, at: number, question: object): object {
  const name = block("You are Claude Code, Anthropic's official CLI for Claude.");
  return {
    system: [block(line(at)), name, block(rules, { cache_control: kept })],
    messages: [question],
  };
}

for (const client of clients) {
  t.test(`${client.name}: named once, with its place and its cost`, async (t) => {
    const service = await openService(t);
    const said = [];
    for (let at = 1; at < 5; at++) said.push((await ask(service, client, at)).advice);
    const character = client.before.length + client.same.length;
    const place = `${client.field} at character ${character} differs from request to request; `;
    const [first, second, third, fourth] = said;
    t.strictSame([first, second, fourth], [null, null, null]);
    t.ok(third?.startsWith(place), `${third}`);
    const cost = Number(/(\d+) tokens behind it/.exec(third ?? '')?.[1]);
    // The echo engine counts one token a byte.
    t.ok(cost >= rules.length, `${cost} tokens`);
  });
}

const ONE_THREAD = { ...shallowEnv(), PREFACE_THREADS: '1,1', PREFACE_SLOTS: '2' };
/** The rules have more tokens than words. */
const RULES_TOKENS_MIN = 24 * 13;

t.test('with the rule on, the next request hits', { skip: skipWithoutWeights }, async (t) => {
  const service = await openService(t, { ...ONE_THREAD, PREFACE_PROMOTE: 'false' });
  for (const client of clients) {
    const move = { 'X-Svc-Context-Cache-Volatile': 'move' };
    await ask(service, client, 1);
    const without = await ask(service, client, 2);
    await ask(service, client, 3, move);
    const next = await ask(service, client, 4, move);
    t.ok(without.cached < 80, `${client.name}: ${without.cached} tokens reused without it`);
    t.ok(next.cached >= RULES_TOKENS_MIN, `${client.name}: ${next.cached} tokens reused with it`);
  }
});
