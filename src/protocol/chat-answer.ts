/**
 * Owns the answer of a chat completion: one body, or chunks that end with `[DONE]`.
 * It must never write a comment, an `event:` line or an empty event: widely copied clients crash on them.
 */
import { type ApiError, errorEnvelope } from '../errors.js';
import type { ChatSettings } from './chat.js';
import { ChunkWriter } from './chunk-writer.js';
import {
  type AnswerHead,
  type Choice,
  completion,
  type JsonPieces,
  type TokenLogprobs,
  type Usage,
} from './completion.js';
import {
  type AnswerCall,
  type AnswerForm,
  type AnswerStream,
  type ChoiceEnd,
  dataFrame,
} from './wire-form.js';

export class ChatAnswer implements AnswerForm {
  constructor(
    readonly head: AnswerHead,
    readonly request: Pick<ChatSettings, 'includeUsage'>,
  ) {}

  whole(choices: readonly Choice[], usage: Usage): JsonPieces {
    return completion(this.head, choices, usage);
  }

  stream(): AnswerStream {
    return new ChunkStream(new ChunkWriter(this.head), this.request.includeUsage);
  }
}

class ChunkStream implements AnswerStream {
  constructor(
    readonly writer: ChunkWriter,
    readonly includeUsage: boolean,
  ) {}

  begin(choices: Iterable<number>): string {
    let frames = '';
    for (const choice of choices) frames += dataFrame(this.writer.role(choice));
    return frames;
  }

  content(choice: number, text: string, logprobs: readonly TokenLogprobs[] | null): string {
    return dataFrame(this.writer.content(choice, text, logprobs));
  }

  reasoning(choice: number, text: string): string {
    return dataFrame(this.writer.reasoning(choice, text));
  }

  call(choice: number, call: AnswerCall): string {
    return dataFrame(this.writer.toolCall(choice, { ...call, arguments: '' }));
  }

  callArguments(choice: number, index: number, text: string): string {
    return dataFrame(this.writer.toolCall(choice, { index, arguments: text }));
  }

  finish(choice: number, { finishReason }: ChoiceEnd, usage: Usage): string {
    return dataFrame(this.writer.finish(choice, finishReason, usage));
  }

  total(usage: Usage): string {
    return this.includeUsage ? dataFrame(this.writer.usage(usage)) : '';
  }

  end(): string {
    return dataFrame('[DONE]');
  }

  /** The error is the last event, and no `[DONE]` follows. */
  failed(error: ApiError): string {
    return dataFrame(JSON.stringify(errorEnvelope(error)));
  }

  /** An empty delta: the only keep-alive that every client accepts. */
  quiet(choice: number): string {
    return dataFrame(this.writer.quiet(choice));
  }
}
