/**
 * Owns the way from the chunks of one upstream's answer to the events of the contract.
 * It must never end a choice before the upstream does, nor invent a figure that the upstream did not give.
 */
import { type EngineEvent, limits, type TextChance, type TextLogprob } from 'preface/plugin';
import { Echo } from './echo.js';
import { broken, reasonOf } from './failure.js';
import { splitCount, type Usage, usageOf } from './usage.js';

interface Call {
  name: string;
  arguments: string;
}

interface Choice {
  readonly calls: Map<number, Call>;
  /** Chunks with content, mostly one token each. */
  chunks: number;
  /** Tokens that the upstream counted for this choice alone. */
  counted: number | null;
  reason: 'stop' | 'length' | null;
  /** UTF-16 units of its text and calls. */
  length: number;
  /** The upstream went on beyond what was asked for. */
  isCut: boolean;
  readonly echo: Echo;
}

interface WireChance {
  readonly token?: unknown;
  readonly logprob?: unknown;
  readonly bytes?: unknown;
  readonly top_logprobs?: readonly WireChance[];
}

/** The fields that are read from a chunk. Each is checked before use. */
interface WireChunk {
  readonly error?: unknown;
  readonly choices?: readonly WireChoice[];
  readonly usage?: unknown;
}

interface WireChoice {
  readonly index?: unknown;
  readonly delta?: {
    readonly content?: unknown;
    readonly reasoning_content?: unknown;
    readonly reasoning?: unknown;
    readonly tool_calls?: readonly WireCall[];
  } | null;
  readonly logprobs?: { readonly content?: readonly WireChance[] | null } | null;
  readonly finish_reason?: unknown;
  readonly usage?: unknown;
}

interface WireCall {
  readonly index?: unknown;
  readonly function?: { readonly name?: unknown; readonly arguments?: unknown };
}

export class AnswerReader {
  readonly #choices: readonly Choice[];
  #usage: Usage | null = null;
  #callsLength = 0;

  constructor(
    choices: number,
    /** Tokens of each choice that may be told and counted, whatever the upstream says. */
    readonly tokensMax: number,
    readonly secret: string | null,
    /** Text that is left out where a choice begins with it. */
    echo = '',
  ) {
    this.#choices = Array.from({ length: choices }, () => ({
      calls: new Map(),
      chunks: 0,
      counted: null,
      reason: null,
      length: 0,
      isCut: false,
      echo: new Echo(echo),
    }));
  }

  /** @returns the events of one chunk. @throws UpstreamError for invalid JSON and for a chunk with an error. */
  read(data: string): EngineEvent[] {
    const chunk = parsed(data);
    if (chunk.error !== undefined && chunk.error !== null) {
      throw broken(reasonOf(data, this.secret));
    }
    this.#usage = usageOf(chunk.usage) ?? this.#usage;
    const choices = Array.isArray(chunk.choices) ? chunk.choices : [];
    return choices.flatMap((wire: WireChoice) => this.#readChoice(wire));
  }

  /** Nothing that follows is told: each choice has ended, or has all the tokens that were asked for. */
  get isFull(): boolean {
    return this.#choices.every((choice) => choice.isCut);
  }

  /** The last events of the stream. @throws UpstreamError when a choice has no end. */
  *end(spentTokens: number): Generator<EngineEvent> {
    if (this.#choices.some(({ reason }) => reason === null)) throw broken('a choice has no end');
    if (this.#usage !== null) yield this.#counted(this.#usage, spentTokens);
    for (const [choice, { calls, reason }] of this.#choices.entries()) {
      for (const call of calls.values()) yield { type: 'call', choice, ...call };
      yield { type: 'finished', choice, reason: reason ?? 'stop' };
    }
  }

  #counted(usage: Usage, spentTokens: number): EngineEvent {
    const counted = this.#choices.map((each) => each.counted);
    const completionTokens = counted.every((count) => count !== null)
      ? counted
      : splitCount(
          usage.completionTokens,
          this.#choices.map(({ chunks }) => chunks),
        );
    const { promptTokens, cachedTokens } = usage;
    const told = completionTokens.map((tokens) => Math.min(tokens, this.tokensMax));
    const reusedTokens = Math.max(0, Math.min(cachedTokens ?? 0, promptTokens) - spentTokens);
    return { type: 'usage', promptTokens, reusedTokens, completionTokens: told };
  }

  #readChoice(wire: WireChoice): EngineEvent[] {
    const index = Number(wire.index ?? 0);
    const choice = this.#choices[index];
    if (choice === undefined) throw broken(`it has an unexpected choice ${index}`);
    choice.counted = usageOf(wire.usage)?.completionTokens ?? choice.counted;
    const { content, reasoning_content, reasoning, tool_calls } = wire.delta ?? {};
    if (choice.isCut) return [];
    const calls = Array.isArray(tool_calls) ? (tool_calls as readonly WireCall[]) : [];
    for (const call of calls) this.#readCall(choice, call);
    // What it repeats was not asked for again, and is no answer.
    const whole = choice.echo.without(typeof content === 'string' ? content : '');
    const hidden = [reasoning_content, reasoning].some((each) => typeof each === 'string' && each);
    const said = whole !== '' || hidden ? this.#said(choice, whole) : '';
    if (said === '' && calls.length > 0) choice.chunks += 1;
    if (typeof wire.finish_reason === 'string' && !choice.isCut) {
      choice.reason = wire.finish_reason === 'length' ? 'length' : 'stop';
    }
    const text = said + (choice.reason === null || choice.isCut ? '' : choice.echo.end());
    const isDropped = choice.isCut && said === '';
    const logprobs = isDropped ? null : (wire.logprobs?.content?.map(readLogprob) ?? null);
    if (text === '' && !logprobs?.length) return [];
    const tokens = Math.min(choice.counted ?? choice.chunks, this.tokensMax);
    return [{ type: 'text', choice: index, text, tokens, logprobs }];
  }

  /** A chunk of text is a token at least: one more than was asked for is not told. */
  #said(choice: Choice, text: string): string {
    choice.chunks += 1;
    if (choice.chunks <= this.tokensMax) return this.#within(choice, text);
    this.#cut(choice);
    return '';
  }

  /** No token is longer than the bound: what goes beyond was not asked for. @returns what is within it. */
  #within(choice: Choice, text: string): string {
    const left = Math.max(0, this.tokensMax * limits.upstreamTokenLengthMax - choice.length);
    choice.length += text.length;
    if (text.length <= left) return text;
    this.#cut(choice);
    // Cut between two halves of a character it would be no text any more.
    return Buffer.from(text.slice(0, left)).toString();
  }

  #cut(choice: Choice): void {
    choice.isCut = true;
    choice.reason = 'length';
  }

  #readCall(choice: Choice, { index, function: part }: WireCall): void {
    const { calls } = choice;
    const at = Number(index ?? 0);
    const call = calls.get(at) ?? { name: '', arguments: '' };
    const [name, more] = [part?.name, part?.arguments];
    if (typeof name === 'string') call.name += name;
    if (typeof more === 'string') call.arguments += this.#within(choice, more);
    calls.set(at, call);
    this.#callsLength += String(name ?? '').length + String(more ?? '').length;
    if (calls.size > limits.upstreamCallsMax || this.#callsLength > limits.upstreamCallsLengthMax) {
      throw broken('its tool calls are longer than allowed');
    }
  }
}

function parsed(data: string): WireChunk {
  try {
    const value: unknown = JSON.parse(data);
    if (typeof value === 'object' && value !== null) return value;
  } catch {
    // The error below says it.
  }
  throw broken('one of its events is not a JSON object');
}

function readLogprob(wire: WireChance): TextLogprob {
  const top = Array.isArray(wire.top_logprobs) ? wire.top_logprobs : [];
  return { ...readChance(wire), top: top.map(readChance) };
}

function readChance({ token, logprob, bytes }: WireChance): TextChance {
  const text = typeof token === 'string' ? token : '';
  return {
    token: text,
    logprob: typeof logprob === 'number' ? logprob : 0,
    bytes: Array.isArray(bytes) ? bytes.map(Number) : [...Buffer.from(text)],
  };
}
