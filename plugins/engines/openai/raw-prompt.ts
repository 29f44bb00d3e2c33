/**
 * Owns prompts without messages at an upstream's older completions route: the request, and its answer in the forms of this folder.
 * It must never take a part of the prompt for a part of the answer.
 */
import type {
  EngineEvent,
  GenerateTask,
  RawRequest,
  TextChance,
  TextLogprob,
} from 'preface/plugin';
import { broken, unknownToServer } from './failure.js';
import { answerFields, type Target } from './request.js';
import { usageOf } from './usage.js';

/** @throws UpstreamError where the server cannot tell log-probabilities of a prompt. */
export function rawBody(task: GenerateTask, raw: RawRequest, target: Target): string {
  const isScored = task.promptLogprobs !== undefined;
  const logprobs = task.promptLogprobs ?? task.logprobs;
  if (isScored && !target.dialect.scoresPrompts) throw unknownToServer('echo with logprobs');
  return JSON.stringify({
    ...answerFields(task, raw, target),
    prompt: raw.text ?? [...task.prompt],
    stream: !isScored,
    ...(isScored ? { echo: true } : { stream_options: { include_usage: true } }),
    ...(logprobs === null ? {} : { logprobs }),
  });
}

interface WireLists {
  readonly tokens?: readonly unknown[];
  readonly token_logprobs?: readonly unknown[];
  readonly top_logprobs?: readonly unknown[] | null;
}

interface WireChoice {
  readonly index?: unknown;
  readonly text?: unknown;
  readonly logprobs?: (WireLists & { readonly content?: unknown }) | null;
  readonly finish_reason?: unknown;
}

/** A chunk of text as the chunk of a chat that says the same. What is no chunk stays as it is. */
export function chatChunk(data: string): string {
  const chunk = objectIn(data);
  if (chunk === null || !Array.isArray(chunk.choices)) return data;
  const choices = (chunk.choices as readonly WireChoice[]).map((choice) => {
    const { text, logprobs, ...rest } = choice;
    return { ...rest, delta: { content: text }, logprobs: chatLogprobs(logprobs) };
  });
  return JSON.stringify({ ...chunk, choices });
}

/** llama-server writes those of a chat on this route too. */
function chatLogprobs(logprobs: WireChoice['logprobs']) {
  if (logprobs === null || logprobs === undefined) return null;
  if (Array.isArray(logprobs.content)) return logprobs;
  const content = listed(logprobs).map(({ top, ...own }) => ({ ...own, top_logprobs: top }));
  return { content };
}

/** The events of a whole answer whose choices begin with the prompt. @throws UpstreamError for one without log-probabilities. */
export function* scoredEvents(
  text: string,
  { choices, maxTokens }: GenerateTask,
  raw: RawRequest,
): Generator<EngineEvent> {
  const answer = objectIn(text);
  const usage = usageOf(answer?.usage);
  const told = Array.isArray(answer?.choices) ? (answer.choices as readonly WireChoice[]) : [];
  if (usage === null || told.length !== choices) throw broken('its answer lacks choices or usage');
  const { promptTokens, cachedTokens } = usage;
  const lists = told.map(({ logprobs }) => listed(logprobs ?? {}));
  const [first = []] = lists;
  if (first.length < promptTokens) throw broken('the prompt has no log-probabilities');
  const reusedTokens = Math.min(cachedTokens ?? 0, promptTokens);
  yield { type: 'started', reusedTokens };
  yield { type: 'scored', logprobs: first.slice(0, promptTokens) };
  const counts = lists.map(({ length }) => Math.min(length - promptTokens, maxTokens));
  for (const [choice, wire] of told.entries()) {
    const logprobs = (lists[choice] ?? []).slice(promptTokens);
    const said = answerOf(wire, raw, first.slice(0, promptTokens));
    const tokens = counts[choice] ?? 0;
    if (tokens > 0) yield { type: 'text', choice, text: said, tokens, logprobs };
  }
  yield { type: 'usage', promptTokens, reusedTokens, completionTokens: counts };
  for (const [choice, { finish_reason: reason }] of told.entries())
    yield { type: 'finished', choice, reason: reason === 'length' ? 'length' : 'stop' };
}

function answerOf(
  { text }: WireChoice,
  { text: asked }: RawRequest,
  prompt: readonly TextLogprob[],
): string {
  const whole = typeof text === 'string' ? text : '';
  const start = asked ?? Buffer.concat(prompt.map(({ bytes }) => Buffer.from(bytes))).toString();
  if (!whole.startsWith(start)) throw broken('its answer does not begin with the prompt');
  return whole.slice(start.length);
}

/** Four lists of the same length as one list. */
function listed({ tokens, token_logprobs: own, top_logprobs: tops }: WireLists): TextLogprob[] {
  return (tokens ?? []).map((token, at) => {
    const logprob = own?.[at];
    return {
      ...chance(String(token), typeof logprob === 'number' ? logprob : 0),
      top: chances(tops?.[at]),
    };
  });
}

function chances(wire: unknown): TextChance[] {
  if (typeof wire !== 'object' || wire === null) return [];
  return Object.entries(wire).map(([token, logprob]) => chance(token, Number(logprob)));
}

/** A part of a character comes as `bytes:\xe2\x96`. */
function chance(token: string, logprob: number): TextChance {
  const hex = /^bytes:((?:\\x[0-9a-f]{2})+)$/.exec(token)?.[1];
  const bytes =
    hex === undefined ? Buffer.from(token) : Buffer.from(hex.replaceAll('\\x', ''), 'hex');
  return { token: hex === undefined ? token : bytes.toString(), logprob, bytes: [...bytes] };
}

function objectIn(text: string): Readonly<Record<string, unknown>> | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null
      ? (value as Readonly<Record<string, unknown>>)
      : null;
  } catch {
    return null;
  }
}
