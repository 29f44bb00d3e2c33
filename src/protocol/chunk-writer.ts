/**
 * Owns the JSON text of a stream's chunks. What is constant in a stream is serialised once.
 * It must never frame a chunk as an event, nor keep any state of the stream.
 */
import {
  type AnswerHead,
  type FinishReason,
  type TokenLogprobs,
  type Usage,
  wireLogprobs,
  wireUsage,
} from './completion.js';

/** The first piece of a tool call has id and name; the following pieces have only more arguments. */
export interface ToolCallDelta {
  /** Position of the call in the answer. */
  readonly index: number;
  readonly id?: string;
  readonly name?: string;
  readonly arguments: string;
}

export class ChunkWriter {
  readonly #start: string;

  constructor(head: AnswerHead) {
    const open = {
      id: head.id,
      object: 'chat.completion.chunk',
      created: head.createdS,
      model: head.model,
    };
    this.#start = `${JSON.stringify(open).slice(0, -1)},"choices":[`;
  }

  /** First of each choice. */
  role(choice: number): string {
    return this.#chunk(choice, '{"role":"assistant","content":""}');
  }

  content(choice: number, text: string, logprobs?: readonly TokenLogprobs[] | null): string {
    return this.#chunk(choice, `{"content":${JSON.stringify(text)}}`, logprobs);
  }

  reasoning(choice: number, text: string): string {
    return this.#chunk(choice, `{"reasoning_content":${JSON.stringify(text)}}`);
  }

  toolCall(
    choice: number,
    call: ToolCallDelta,
    logprobs?: readonly TokenLogprobs[] | null,
  ): string {
    const { index, id, name, arguments: text } = call;
    const first = id === undefined ? {} : { id, type: 'function' };
    const named = name === undefined ? {} : { name };
    const delta = { tool_calls: [{ index, ...first, function: { ...named, arguments: text } }] };
    return this.#chunk(choice, JSON.stringify(delta), logprobs);
  }

  /** An empty delta: the only keep-alive that every client accepts. */
  quiet(choice: number): string {
    return this.#chunk(choice, '{}');
  }

  /** Last of each choice, with the usage inside the choice. */
  finish(choice: number, reason: FinishReason, usage: Usage): string {
    const end = `"finish_reason":"${reason}","usage":${JSON.stringify(wireUsage(usage))}}]}`;
    return `${this.#start}{"index":${choice},"delta":{},${end}`;
  }

  /** Last of the stream, for `include_usage` only: some clients cannot read a chunk without choices. */
  usage(usage: Usage): string {
    return `${this.#start}],"usage":${JSON.stringify(wireUsage(usage))}}`;
  }

  #chunk(choice: number, delta: string, logprobs?: readonly TokenLogprobs[] | null): string {
    const start = `${this.#start}{"index":${choice},"delta":${delta},`;
    if (logprobs === undefined || logprobs === null) return `${start}"finish_reason":null}]}`;
    return `${start}"logprobs":${JSON.stringify(wireLogprobs(logprobs))},"finish_reason":null}]}`;
  }
}
