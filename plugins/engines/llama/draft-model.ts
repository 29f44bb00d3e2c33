/**
 * Owns a small model that guesses the next tokens of one stream at a time: what its context holds, and how long it takes.
 * It must never guess for a stream from tokens of another, nor decide which token is taken.
 */
import { limits } from 'preface/plugin';
import type { Context } from './context.js';
import { EvaluationRate } from './evaluation-rate.js';
import { isCuttable } from './memory.js';
import type { Weights } from './native.js';
import { best } from './sampler.js';

export interface DraftModelParts {
  /** Of one sequence. */
  readonly context: Context;
  readonly window: number;
  /** Words of the model that takes the guesses: it has none beyond them. */
  readonly vocabularySize: number;
  readonly threads: (work: 'single' | 'prompt') => number;
}

const SEQUENCE = 0;
/** Fewer at once take nearly as long as this many: their time says nothing of a prompt's. */
const PROMPT_ROWS_MIN = 16;

/** Words that a vocabulary may have more than another of its family: places that no text uses. */
const SPARE_WORDS_MAX = 128;

/** Why the weights cannot guess for these others, or null. */
export function draftRefusal(draft: Weights, model: Weights): string | null {
  if (!isCuttable(model.facts.memory))
    return 'this model cannot take a draft: no token can be taken out of its memory again';
  if (!isCuttable(draft.facts.memory))
    return 'its draft cannot guess: no token can be taken out of its memory again';
  const [ours, theirs] = [draft.facts.vocabularySize, model.facts.vocabularySize];
  const isNear = Math.abs(ours - theirs) <= SPARE_WORDS_MAX;
  for (let id = 0; isNear && id < Math.min(ours, theirs); id++) {
    if (draft.piece(id) !== model.piece(id))
      return `its draft has another vocabulary: token ${id} is ${JSON.stringify(draft.piece(id))} there and ${JSON.stringify(model.piece(id))} here`;
  }
  return isNear ? null : `its draft has another vocabulary: of ${ours} tokens, not ${theirs}`;
}

export class DraftModel {
  #stream: object | null = null;
  /** Ids that its context holds, with guesses at their end. */
  #held: number[] = [];
  /** Of `#held`, how many are of the stream itself. */
  #sure = 0;
  readonly #ofPrompts = new EvaluationRate();
  readonly #ofSteps = new EvaluationRate();

  constructor(private readonly parts: DraftModelParts) {}

  /** What it takes to evaluate a stream of so many tokens as far as it was not yet; null: nothing was measured. */
  behindMs(stream: object, length: number): number | null {
    const behind = length - (stream === this.#stream ? this.#sure : 0);
    const { msPerToken } = this.#ofPrompts;
    return msPerToken === null ? null : msPerToken * Math.max(0, behind);
  }

  /** What a guessed token takes; null: none was measured. */
  get stepMs(): number | null {
    return this.#ofSteps.msPerToken;
  }

  /**
   * @param last the token that follows `tokens`. @param most guesses.
   * @returns none while it is far behind the stream: each call brings it on by one chunk, so that nobody waits for it long.
   */
  async guess(
    stream: object,
    tokens: readonly number[],
    last: number,
    most: number,
  ): Promise<readonly number[]> {
    if (tokens.length + most > this.parts.window) return [];
    this.#follow(stream, tokens);
    const rest = [...tokens.slice(this.#sure), last];
    const isFar = rest.length > limits.prefillRowsMax;
    const chunk = isFar ? rest.slice(0, limits.prefillRowsMax) : rest;
    let row = await this.#evaluate(chunk, !isFar);
    this.#sure = this.#held.length;
    const guesses: number[] = [];
    while (row !== null) {
      const id = best(this.parts.context.logits(row));
      if (id >= this.parts.vocabularySize) break;
      guesses.push(id);
      row = guesses.length < most ? await this.#evaluate([id], true) : null;
    }
    return guesses;
  }

  /** Takes out what is not of the stream: tokens of another one, and guesses that did not come. */
  #follow(stream: object, tokens: readonly number[]): void {
    const { context } = this.parts;
    if (stream !== this.#stream) {
      // Another user's prompt must not make this one's guesses come sooner.
      context.clear(SEQUENCE);
      this.#held = [];
      this.#sure = 0;
    }
    this.#stream = stream;
    while (this.#sure < tokens.length && tokens[this.#sure] === this.#held[this.#sure])
      this.#sure += 1;
    if (this.#held.length > this.#sure && !context.truncate(SEQUENCE, this.#sure)) this.#sure = 0;
    this.#held.length = this.#sure;
  }

  /** @returns the row of the last one's logits, where they are wanted. */
  async #evaluate(ids: readonly number[], logits: boolean): Promise<number | null> {
    const { context, threads } = this.parts;
    const position = this.#held.length;
    const work = ids.length > 1 ? 'prompt' : 'single';
    const startedAt = performance.now();
    const item = { sequence: SEQUENCE, position, ids, logits };
    const [row = null] = await context.evaluate([item], threads(work));
    const ms = performance.now() - startedAt;
    if (ids.length === 1) this.#ofSteps.took(ms, 1);
    if (ids.length >= PROMPT_ROWS_MIN) this.#ofPrompts.took(ms, ids.length);
    this.#held.push(...ids);
    return row;
  }

  async close(): Promise<void> {
    await this.parts.context.close();
  }
}
