/**
 * Owns the way from one choice's generated ids to what its client sees: text, a tool call, a reason to finish.
 * It must never show part of a stop string, of a character, or of the mark that opens a tool call.
 */
import type { TextLogprob, TokenLogprob } from '../plugin/contract.js';
import type { FinishReason } from '../protocol/completion.js';
import { StopStrings } from './stop-strings.js';
import { type GeneratedCall, readToolCall, TOOL_CALL_OPEN, type ToolMode } from './tool-calls.js';

/** Ids to text, never splitting a character. */
export interface TextDecoder {
  push(ids: readonly number[]): string;
  /** The text of an unfinished character. */
  end(): string;
}

/** A log-probability by id, or as the upstream wrote it. */
export type AnswerLogprob = TokenLogprob | TextLogprob;

export type AnswerDelta =
  | {
      readonly type: 'content';
      /** May be empty beside log-probabilities: the text of a token can be held back. */
      readonly text: string;
      readonly logprobs: readonly AnswerLogprob[] | null;
    }
  | { readonly type: 'tool-call'; readonly call: GeneratedCall };

export interface AnswerOptions {
  readonly stop: readonly string[];
  readonly toolMode: ToolMode;
}

export class ChoiceAnswer {
  readonly #decoder: TextDecoder;
  readonly #stops: StopStrings;
  readonly #opensCalls: boolean;
  /** Text of the call once one is open. */
  #call: string | null;
  #forced: boolean;
  /** The upstream has sent a whole call. */
  #called = false;
  #tokens = 0;
  #finish: FinishReason | null = null;

  constructor(decoder: TextDecoder, options: AnswerOptions) {
    const { stop, toolMode } = options;
    this.#decoder = decoder;
    // A client whose stop string is the mark of a call wants no call.
    this.#opensCalls = toolMode === 'auto' && !stop.includes(TOOL_CALL_OPEN);
    this.#stops = new StopStrings(this.#opensCalls ? [...stop, TOOL_CALL_OPEN] : stop);
    this.#forced = toolMode === 'forced';
    this.#call = this.#forced ? '' : null;
  }

  /** Generated tokens that went into the answer; those after a stop string do not count. */
  get tokens(): number {
    return this.#tokens;
  }

  /** Set when this choice needs no more. */
  get finish(): FinishReason | null {
    return this.#finish;
  }

  /** @returns null when there is nothing to show yet. */
  push(ids: readonly number[], logprobs: readonly TokenLogprob[] | null): AnswerDelta | null {
    if (this.#finish !== null) return null;
    this.#tokens += ids.length;
    return this.#show(this.#decoder.push(ids), logprobs);
  }

  /** The same for an upstream's text. @param tokens of this choice so far, if known. */
  pushText(
    text: string,
    tokens: number,
    logprobs: readonly TextLogprob[] | null,
  ): AnswerDelta | null {
    if (this.#finish !== null) return null;
    this.#tokens = tokens;
    return this.#show(text, logprobs);
  }

  /** An upstream's tool call; the choice ends with it or with further calls. */
  pushCall(call: GeneratedCall): AnswerDelta | null {
    if (this.#finish !== null) return null;
    this.#called = true;
    return { type: 'tool-call', call };
  }

  /** Takes the upstream's own count of this choice: text after a stop string was paid for there. */
  count(tokens: number): void {
    this.#tokens = tokens;
  }

  /** The engine is done with this choice. */
  end(reason: 'stop' | 'length'): AnswerDelta | null {
    if (this.#finish !== null) return null;
    const text = this.#read(this.#decoder.end());
    this.#finish ??= this.#called && reason === 'stop' ? 'tool_calls' : reason;
    return this.#call === null ? content(text + this.#stops.end()) : this.#endCall(this.#call);
  }

  #show(generated: string, logprobs: readonly AnswerLogprob[] | null): AnswerDelta | null {
    const text = this.#read(generated);
    if (text === '' && logprobs === null) return null;
    return { type: 'content', text, logprobs };
  }

  /** Takes the text of a call; returns the text that may be shown. */
  #read(text: string): string {
    if (this.#call !== null) {
      this.#call += text;
      return '';
    }
    const step = this.#stops.push(text);
    if (step.matched === TOOL_CALL_OPEN && this.#opensCalls) this.#call = step.rest;
    else if (step.matched !== null) this.#finish = 'stop';
    return step.text;
  }

  /** A call that was cut short is shown as text, so that nothing is lost. */
  #endCall(text: string): AnswerDelta | null {
    const call = readToolCall(text);
    if (call === null) return content(this.#forced ? text : TOOL_CALL_OPEN + text);
    this.#finish = 'tool_calls';
    return { type: 'tool-call', call };
  }
}

function content(text: string): AnswerDelta | null {
  return text === '' ? null : { type: 'content', text, logprobs: null };
}
