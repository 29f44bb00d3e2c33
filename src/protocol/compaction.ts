/**
 * Owns the compaction of a conversation: the chat that sums it up, and the item that stands for what it replaces.
 * It must never call a summary encrypted that is not: what a client gets, they can read.
 */
import { invalid } from '../errors.js';
import { limits } from '../limits/index.js';
import type { ChatRequest } from './chat.js';
import { refuse } from './chat-faults.js';
import type { AnswerHead, Choice, Usage } from './completion.js';
import type { Earlier, GoesOnFrom } from './goes-on.js';
import type { PrefixMark } from './prefix-mark.js';
import { goesOnFrom, inputItems, parseResponse } from './responses.js';
import { RESPONSE_ID_PREFIX, wireUsage } from './responses-answer.js';
import type { ResponseEcho } from './responses-echo.js';
import { compactionItem, givenItems, itemId } from './responses-items.js';
import { compactionRequestSchema, type WireItem } from './responses-schema.js';
import { compile, isObject, type JsonObject } from './schema.js';
import type { AnswerForm, AnswerStream } from './wire-form.js';

const fits = compile(compactionRequestSchema);

/** Behind the conversation, so that what is kept of its prompt is reused. */
const TASK = `Write a summary of the conversation so far, from which you can go on with it without its text.
Keep what was decided, asked for and found out, what was done and with what result, what is still open, and every name, number, path and piece of code that is needed again.
Answer with the summary alone.`;

/** null for a request that stands for itself. @throws ApiError for a value that breaks the schema. */
export function compactionGoesOn(value: unknown): GoesOnFrom | null {
  return isObject(value) ? goesOnFrom({ ...value, conversation: null }) : null;
}

/** @throws ApiError that names the field, what came and what is allowed. */
export function parseCompaction(value: unknown, earlier?: Earlier): ChatRequest {
  if (!fits(value)) throw refuse(compactionRequestSchema, value);
  const { model, input, instructions, previous_response_id, prompt_cache_key } = value;
  const given: readonly WireItem[] =
    typeof input === 'string' ? [{ role: 'user', content: input }] : (input ?? []);
  const before = earlier?.items ?? [];
  const isEmpty = input === '' || given.length + before.length === 0;
  if (isEmpty) throw invalid('input must not be empty', 'input');
  const request = parseResponse(
    {
      model,
      instructions,
      previous_response_id,
      prompt_cache_key,
      input: [...given, { role: 'user', content: TASK }],
      store: false,
      truncation: 'auto',
      max_output_tokens: limits.compactionTokensMax,
    },
    earlier,
  );
  const items = inputItems(input, earlier?.referenced ?? {}) as readonly JsonObject[];
  const said = kept([...before, ...items].filter(isSaidToModel));
  const marks = beforeTask(request);
  return { ...request, marks, echo: { ...(request.echo as ResponseEcho), given: said } };
}

/** No later prompt begins with the task: what is kept ends before it. */
function beforeTask({ marks, messages }: ChatRequest): PrefixMark[] {
  const max = messages.length - 1;
  return marks
    .map((mark) => ({ ...mark, messages: Math.min(mark.messages, max) }))
    .filter(({ messages: whole, parts }) => whole > 0 || parts !== null);
}

/** What somebody said to the model stays word for word. */
function isSaidToModel({ role }: JsonObject): boolean {
  return typeof role === 'string' && role !== 'assistant';
}

function kept(items: readonly JsonObject[]): string {
  const json = JSON.stringify(items);
  if (json.length <= limits.responseInputLengthMax) return json;
  throw invalid(
    `input must have at most ${limits.responseInputLengthMax} characters of JSON in messages that are not the model's, got ${json.length}`,
    'input',
  );
}

export class CompactionAnswer implements AnswerForm {
  constructor(
    readonly head: AnswerHead,
    readonly echo: ResponseEcho,
  ) {}

  whole([choice]: readonly Choice[], usage: Usage): JsonObject {
    const { id, createdS } = this.head;
    const of = id.slice(RESPONSE_ID_PREFIX.length);
    const said = givenItems(JSON.parse(this.echo.given) as JsonObject[], of);
    const summary = compactionItem(itemId('compaction', of, said.length), choice?.content ?? '');
    return {
      id,
      object: 'response.compaction',
      created_at: createdS,
      output: [...said, summary],
      usage: wireUsage(usage),
    };
  }

  stream(): AnswerStream {
    throw new Error('a compaction is not streamed');
  }
}
