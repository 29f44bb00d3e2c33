/**
 * Owns the wire shapes of what the service did lately, as the admin API shows it: history, requests, lines of the log.
 * It must never hold a text of a message, an answer or a document.
 */
import { invalid } from '../errors.js';
import { limits } from '../limits/index.js';
import type { Parameter } from './api.js';
import { quoted } from './field.js';
import { type Static, type TSchema, Type } from './schema.js';

const amount = Type.Integer({ minimum: 0 });
const orNull = <Schema extends TSchema>(schema: Schema) => Type.Union([schema, Type.Null()]);
const ms = Type.Number({ minimum: 0, description: 'Milliseconds.' });
const counts = (description: string) => Type.Array(amount, { description });
const times = Type.Array(orNull(ms), {
  description: 'Milliseconds; null where no chat had its first content.',
});
const unixTime = Type.Number({ description: 'Unix seconds, with milliseconds.' });

// ------------------------------------------------------------------- history

const spans = ['hour', 'day'] as const;
export type WireSpan = (typeof spans)[number];

export const historySchema = Type.Object({
  object: Type.Literal('history'),
  span: Type.Enum([...spans]),
  step_seconds: amount,
  steps: Type.Integer({
    minimum: 1,
    description: 'Of the whole span. There are fewer values as long as the service is younger.',
  }),
  first_at: Type.Integer({
    description: 'Unix seconds at which the first step begins. The last one is not over.',
  }),
  requests: counts('Requests of users.'),
  refused: counts('Those with an answer of 400 to 499.'),
  failed: counts('Those that the service failed, also in the middle of a stream.'),
  prompt_tokens: counts('Reused ones included.'),
  completion_tokens: counts('Generated ones.'),
  saved_tokens: counts('Prompt tokens that the engine did not evaluate.'),
  cache_lookups: counts('Chats that named a context cache.'),
  cache_hits: counts('Those that were a hit.'),
  chats_running: counts('The most at one time.'),
  chats_waiting: counts('The most at one time.'),
  memory_main_bytes: counts('Resident memory of the main process, the highest.'),
  memory_engines_bytes: counts('The same of the processes of the engines, together.'),
  first_content_ms: Type.Object(
    { p50: times, p95: times, p99: times },
    { description: 'Time to first content of chats, within 7 %.' },
  ),
});

export type WireHistory = Static<typeof historySchema>;

export const spanParameter: Parameter = {
  name: 'span',
  in: 'query',
  description: 'The last hour in steps of 10 s, or the last day in steps of 5 minutes.',
  schema: Type.Enum([...spans], { default: 'hour' }),
};

/** @throws ApiError that says what is allowed. */
export function parseSpan(query: string): WireSpan {
  return parseWord(query, 'span', spans) ?? 'hour';
}

// ------------------------------------------------------------------ requests

export const recentRequestSchema = Type.Object({
  object: Type.Literal('request'),
  id: Type.String({ description: 'Its place since the start of the service.' }),
  request_id: Type.String({ description: '`x-request-id` of the answer.' }),
  created_at: unixTime,
  method: Type.String(),
  route: Type.String({ description: 'The pattern, never the path.' }),
  in_batch: Type.Boolean({ description: 'A line of a batch, which ran as such a request would.' }),
  status: Type.Integer({ description: '499: the client left before there was an answer.' }),
  user: orNull(Type.String()),
  duration_ms: ms,
  first_content_ms: orNull(ms),
  error_type: orNull(Type.String()),
  model: orNull(Type.String()),
  stream: orNull(Type.Boolean()),
  prompt_tokens: orNull(amount),
  cached_tokens: orNull(amount),
  completion_tokens: orNull(amount),
  cache_status: orNull(
    Type.String({ description: 'Of the cache that the chat named; null if it named none.' }),
  ),
  miss_reason: orNull(Type.String({ description: 'Where the chat differs: positions, no text.' })),
  stages: orNull(
    Type.Object(
      {
        tokenize_ms: ms,
        cache_ms: ms,
        queue_ms: ms,
        prefill_ms: orNull(ms),
        generate_ms: orNull(ms),
      },
      {
        description: 'In the order in which a chat goes through them; as `Server-Timing` has them.',
      },
    ),
  ),
});

export type WireRecentRequest = Static<typeof recentRequestSchema>;

// ----------------------------------------------------------------------- log

const levels = ['error', 'warn', 'info'] as const;
export type WireLevel = (typeof levels)[number];

export const logLineSchema = Type.Object({
  object: Type.Literal('log.line'),
  id: Type.String({ description: 'Its place since the start of the service.' }),
  created_at: unixTime,
  level: Type.Enum([...levels]),
  text: Type.String({ maxLength: limits.recentLineLengthMax + 1 }),
});

export type WireLogLine = Static<typeof logLineSchema>;

export const levelParameter: Parameter = {
  name: 'level',
  in: 'query',
  description: 'Lines of this level alone.',
  schema: Type.Enum([...levels]),
};

/** @returns null for every level. @throws ApiError that says what is allowed. */
export function parseLevel(query: string): WireLevel | null {
  return parseWord(query, 'level', levels);
}

function parseWord<Word extends string>(
  query: string,
  name: string,
  words: readonly Word[],
): Word | null {
  const given = new URLSearchParams(query).getAll(name);
  const [text] = given;
  if (text === undefined) return null;
  const word = words.find((each) => each === text);
  if (word !== undefined && given.length === 1) return word;
  const shown = given.length === 1 ? quoted(text) : `${given.length} values`;
  throw invalid(`${name} must be one of ${words.join(', ')}, got ${shown}`, name);
}
