/**
 * Owns one attempt at a line of a batch that asks for embeddings: the stages of such a request in idle places.
 * It must never leave the engine at work once the batch is over.
 */
import type { Admission } from '../accounts/accounts.js';
import type { Parser } from '../parsing/parser.js';
import { JsonPieces } from '../protocol/completion.js';
import type { AccountPolicy } from '../rules/account-policy.js';
import { EmbeddingAnswer } from '../vectors/embedding-answer.js';
import type { VectorService } from '../vectors/service.js';
import type { HeldBytes } from './held-bytes.js';
import { type LineOutcome, NOTHING, type Outgrown } from './line-outcome.js';

export interface VectorLineParts {
  readonly parser: Parser;
  readonly vectors: VectorService;
}

export interface VectorLine {
  readonly owner: string;
  readonly policy: AccountPolicy;
  readonly bytes: Buffer;
  readonly signal: AbortSignal;
  readonly evaluated: () => void;
}

/** @returns null where it gave its place away. @throws ApiError, or the reason of the signal. */
export async function embedded(
  { parser, vectors }: VectorLineParts,
  admission: Pick<Admission, 'reserve' | 'settle'>,
  held: HeldBytes,
  { owner, policy, bytes, signal, evaluated }: VectorLine,
): Promise<LineOutcome | Outgrown | null> {
  const opened = await parser.embedding(owner, bytes);
  const { inputs } = opened;
  try {
    held.set(inputs.heldBytes);
    const prepared = await vectors.embedding({ user: owner, policy }, opened);
    // Each token is four bytes until the engine has it.
    held.set(inputs.heldBytes + 4 * prepared.tokens);
    await admission.reserve(prepared.tokens);
    await prepared.reviewInput();
    // One that runs hears of an abort by an event, and that of now has been.
    signal.throwIfAborted();
    const answer = new EmbeddingAnswer(opened.settings, (more) => held.add(more));
    const isBackground = true;
    const run = prepared.run((made) => answer.take(made, prepared.model), { isBackground });
    // Lines share nothing here that one of them would have to evaluate for the next.
    evaluated();
    const stop = () => run.cancel();
    signal.addEventListener('abort', stop);
    const ended = run.ended.finally(() => signal.removeEventListener('abort', stop));
    const refusal = await held.refusalOf(ended);
    const usage = { promptTokens: run.tokens, cachedTokens: 0, completionTokens: 0 };
    const settle = (isCharged: boolean) => admission.settle(isCharged ? usage : NOTHING);
    if (signal.aborted) return { type: 'cut', usage, settle };
    if (refusal !== null) return { type: 'outgrown', error: refusal, usage, settle };
    if (run.preempted) return null;
    const body = JsonPieces.textOf(answer.body(run.tokens)).toString();
    const used = { model: prepared.model.id, inputs: inputs.length, promptTokens: run.tokens };
    return { type: 'answered', body, usage, note: { chat: null, vectors: used }, settle };
  } finally {
    inputs.free();
  }
}
