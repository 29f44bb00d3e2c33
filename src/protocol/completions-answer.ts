/**
 * Owns the answer of a completion: one body, or chunks that end with `[DONE]`.
 * It must never write a comment, an `event:` line or an empty event: widely copied clients crash on them.
 */
import { type ApiError, errorEnvelope } from '../errors.js';
import type { ChatSettings } from './chat.js';
import {
  type AnswerHead,
  type Choice,
  JsonPieces,
  type TokenChance,
  type TokenLogprobs,
  type Usage,
  usageSchema,
  wireUsage,
} from './completion.js';
import { JsonItems } from './json-items.js';
import { type Static, type TSchema, Type } from './schema.js';
import {
  type AnswerForm,
  type AnswerStream,
  type ChoiceEnd,
  dataFrame,
  type LogprobWriter,
} from './wire-form.js';

const logprobsSchema = Type.Object({
  tokens: Type.Array(Type.String()),
  token_logprobs: Type.Array(Type.Union([Type.Number(), Type.Null()])),
  top_logprobs: Type.Array(Type.Union([Type.Unsafe<Chances>({ type: 'object' }), Type.Null()])),
  text_offset: Type.Array(
    Type.Integer({ minimum: 0, description: 'Characters of `text` before the token.' }),
  ),
});

type Chances = Readonly<Record<string, number>>;

const answer = <Ends extends TSchema>(ends: Ends) => ({
  id: Type.String({ pattern: '^cmpl-[0-9a-f]{32}$' }),
  object: Type.Literal('text_completion'),
  created: Type.Integer({ description: 'Unix seconds.' }),
  model: Type.String(),
  choices: Type.Array(
    Type.Object({
      index: Type.Integer({
        minimum: 0,
        description: 'The choices of the first prompt, then those of the second, and so on.',
      }),
      text: Type.String(),
      logprobs: Type.Union([logprobsSchema, Type.Null()]),
      finish_reason: ends,
    }),
  ),
});

const ends = Type.Enum(['stop', 'length']);

export const completionsSchema = Type.Object({ ...answer(ends), usage: usageSchema });

export const completionsChunkSchema = Type.Object({
  ...answer(Type.Union([ends, Type.Null()])),
  usage: Type.Optional(usageSchema),
});

/** One event of a stream, as a reader of event streams hands it over. */
export const completionsEventSchema = Type.Object({
  data: Type.Union([
    Type.Literal('[DONE]', { description: 'The end of the stream.' }),
    Type.String({
      contentMediaType: 'application/json',
      contentSchema: {
        anyOf: [
          { $ref: '#/components/schemas/CompletionChunk' },
          { $ref: '#/components/schemas/Error' },
        ],
      },
    }),
  ]),
});

export class CompletionsAnswer implements AnswerForm {
  readonly #start: string;
  readonly #top: number;

  constructor(
    head: AnswerHead,
    readonly request: Pick<ChatSettings, 'includeUsage' | 'logprobs'>,
  ) {
    const { id, createdS: created, model } = head;
    const open = { id, object: 'text_completion', created, model };
    this.#start = `${JSON.stringify(open).slice(0, -1)},"choices":[`;
    this.#top = request.logprobs ?? 0;
  }

  whole(choices: readonly Choice[], usage: Usage): JsonPieces {
    const written = choices.flatMap((choice, index) => [
      Buffer.from(index === 0 ? '' : ','),
      ...choicePieces(choice, index),
    ]);
    const end = `],"usage":${JSON.stringify(wireUsage(usage))}}`;
    return new JsonPieces([Buffer.from(this.#start), ...written, Buffer.from(end)]);
  }

  logprobs(): LogprobWriter {
    return new ListedLogprobs(this.#top);
  }

  stream(): AnswerStream {
    return new TextStream(this.#start, this.#top, this.request.includeUsage);
  }
}

function choicePieces(choice: Choice, index: number): readonly Uint8Array[] {
  const { content, finishReason, logprobs } = choice;
  const start = `{"index":${index},"text":${JSON.stringify(content)},"logprobs":`;
  const end = `,"finish_reason":"${finishReason}"}`;
  return [Buffer.from(start), ...(logprobs ?? [Buffer.from('null')]), Buffer.from(end)];
}

class TextStream implements AnswerStream {
  /** By choice. */
  readonly #offsets = new Map<number, Offsets>();

  constructor(
    readonly start: string,
    readonly top: number,
    readonly includeUsage: boolean,
  ) {}

  begin(): string {
    return '';
  }

  prompt(choice: number, text: string, logprobs: readonly TokenLogprobs[] | null): string {
    return this.#chunk(choice, text, this.#listed(choice, logprobs, true));
  }

  content(choice: number, text: string, logprobs: readonly TokenLogprobs[] | null): string {
    return this.#chunk(choice, text, this.#listed(choice, logprobs, false));
  }

  /** A raw prompt asks for no thoughts: they are text. */
  reasoning(choice: number, text: string): string {
    return this.#chunk(choice, text, null);
  }

  call(): string {
    return '';
  }

  callArguments(): string {
    return '';
  }

  finish(choice: number, { finishReason }: ChoiceEnd): string {
    return this.#chunk(choice, '', null, finishReason);
  }

  total(usage: Usage): string {
    if (!this.includeUsage) return '';
    return dataFrame(`${this.start}],"usage":${JSON.stringify(wireUsage(usage))}}`);
  }

  end(): string {
    return dataFrame('[DONE]');
  }

  /** The error is the last event, and no `[DONE]` follows. */
  failed(error: ApiError): string {
    return dataFrame(JSON.stringify(errorEnvelope(error)));
  }

  quiet(choice: number): string {
    return this.#chunk(choice, '', null);
  }

  #listed(
    choice: number,
    tokens: readonly TokenLogprobs[] | null,
    ofPrompt: boolean,
  ): Static<typeof logprobsSchema> | null {
    if (tokens === null) return null;
    const offsets = this.#offsets.get(choice) ?? new Offsets();
    this.#offsets.set(choice, offsets);
    const listed = tokens.map((token) => listedToken(token, this.top, offsets, ofPrompt));
    return {
      tokens: listed.map(({ text }) => text),
      token_logprobs: listed.map(({ logprob }) => logprob),
      top_logprobs: listed.map(({ top }) => top),
      text_offset: listed.map(({ offset }) => offset),
    };
  }

  #chunk(choice: number, text: string, logprobs: object | null, reason?: string): string {
    const said = `"index":${choice},"text":${JSON.stringify(text)}`;
    const end = reason === undefined ? 'null' : `"${reason}"`;
    const listed = JSON.stringify(logprobs);
    return dataFrame(`${this.start}{${said},"logprobs":${listed},"finish_reason":${end}}]}`);
  }
}

/** Four lists of the same length. */
class ListedLogprobs implements LogprobWriter {
  readonly #tokens = new JsonItems();
  readonly #logprobs = new JsonItems();
  readonly #tops = new JsonItems();
  readonly #textOffsets = new JsonItems();
  readonly #offsets = new Offsets();

  constructor(readonly top: number) {}

  add(tokens: readonly TokenLogprobs[], ofPrompt: boolean): number {
    let length = 0;
    for (const token of tokens) {
      const { text, logprob, top, offset } = listedToken(token, this.top, this.#offsets, ofPrompt);
      length += this.#tokens.add(JSON.stringify(text));
      length += this.#logprobs.add(JSON.stringify(logprob));
      length += this.#tops.add(JSON.stringify(top));
      length += this.#textOffsets.add(String(offset));
    }
    return length;
  }

  pieces(): readonly Uint8Array[] {
    const text = (value: string) => Buffer.from(value);
    return [
      text('{"tokens":['),
      ...this.#tokens.pieces(),
      text('],"token_logprobs":['),
      ...this.#logprobs.pieces(),
      text('],"top_logprobs":['),
      ...this.#tops.pieces(),
      text('],"text_offset":['),
      ...this.#textOffsets.pieces(),
      text(']}'),
    ];
  }
}

/** Where the next token begins in the text. */
class Offsets {
  #characters = 0;
  isFirst = true;

  /** A byte that goes on with a character begins none. */
  next(bytes: readonly number[]): number {
    const at = this.#characters;
    for (const byte of bytes) if ((byte & 0xc0) !== 0x80) this.#characters += 1;
    this.isFirst = false;
    return at;
  }
}

/** Nothing stands before the first token of a prompt, so that it has no log-probability. */
function listedToken(token: TokenLogprobs, most: number, offsets: Offsets, ofPrompt: boolean) {
  const hasNone = ofPrompt && offsets.isFirst;
  const offset = offsets.next(token.bytes);
  const text = textOf(token);
  if (hasNone) return { text, logprob: null, top: null, offset };
  // Its own comes last: of two tokens with the same text it is the one that counts.
  const chances = [...token.top.slice(0, most), token];
  const top = Object.fromEntries(chances.map((each) => [textOf(each), each.logprob]));
  return { text, logprob: token.logprob, top, offset };
}

/** A part of a character is written as its bytes, so that two of them differ. */
function textOf({ token, bytes }: TokenChance): string {
  if (!token.includes('\uFFFD') || Buffer.from(token).equals(Buffer.from(bytes))) return token;
  const hex = bytes.map((byte) => `\\x${byte.toString(16).padStart(2, '0')}`);
  return `bytes:${hex.join('')}`;
}
