/**
 * Owns the run of one line of a batch: the stages of a chat in idle places, until there is an answer or a refusal.
 * It must never charge for an answer before the answer is kept.
 */
import type { Accounts, Admission } from '../accounts/accounts.js';
import { chatNote, noteEnd } from '../chat/chat-note.js';
import { ChatReply } from '../chat/chat-reply.js';
import type { RunningChat } from '../chat/generation.js';
import type { ReadyChat } from '../chat/ready-chat.js';
import type { ChatService } from '../chat/service.js';
import { type Clock, pause } from '../clock.js';
import { ApiError, fromErrorValue, toErrorValue } from '../errors.js';
import { limits } from '../limits/index.js';
import type { LineForm } from '../protocol/batches.js';
import { type AccountPolicy, checkEntry } from '../rules/account-policy.js';
import type { BatchUsage } from '../rules/batch-state.js';
import type { TakeReport } from '../telemetry/report.js';
import { HeldBytes, type Memory } from './held-bytes.js';
import { type LineOutcome, NOTHING, type Outgrown } from './line-outcome.js';
import { embedded, type VectorLineParts } from './vector-line.js';

export interface LineParts extends VectorLineParts {
  readonly chats: ChatService;
  readonly accounts: Accounts;
  readonly clock: Clock;
  readonly policyOf: (owner: string) => AccountPolicy;
  readonly memory: Memory;
  /** Takes what the log and the history are made of. */
  readonly took: TakeReport;
  /** False once it is revoked. */
  readonly isKey: (keyId: string) => boolean;
}

/** Nothing more may run in the name of a key that was revoked. */
export class KeyRevoked extends Error {
  override readonly name = 'KeyRevoked';
}

/** The input cannot be read: that is no fault of the line, and the batch looks at its input again. */
export class InputUnread extends Error {
  override readonly name = 'InputUnread';
}

export interface LineAsked {
  readonly owner: string;
  readonly keyId: string;
  readonly form: LineForm;
  /** Reads the request, for each attempt anew: one that waits holds nothing of it. */
  readonly body: () => Promise<Uint8Array>;
  readonly bytes: number;
  readonly signal: AbortSignal;
  /** Its prompt is evaluated, or it is over. */
  readonly evaluated: () => void;
}

/** Rows that say nothing of the request: the same one may succeed later. */
const LATER: ReadonlySet<string> = new Set([
  'overloaded',
  'unavailable',
  'concurrencyLimit',
  'requestLimit',
  'tokensPerMinute',
]);

/** @throws the reason of the signal; KeyRevoked; InputUnread. */
export async function runLine(parts: LineParts, asked: LineAsked): Promise<LineOutcome> {
  let delayMs: number = limits.batchRetryMs;
  for (let broken = 0; ; ) {
    asked.signal.throwIfAborted();
    const outcome = await attempt(parts, asked).catch((cause: unknown) => refused(cause, asked));
    // It gave its place to somebody who waits: it goes on when places are idle.
    if (outcome === null) continue;
    if (outcome.type !== 'refused' && outcome.type !== 'outgrown') return outcome;
    const { error } = outcome;
    // A run is dear: one whose answer has no room counts like one that breaks.
    broken += error.row === 'server' || outcome.type === 'outgrown' ? 1 : 0;
    const isFinal = !LATER.has(error.row) && error.row !== 'server';
    if (isFinal || broken >= limits.batchAttemptsMax) return { ...outcome, type: 'refused' };
    outcome.settle(false);
    await pause(parts.clock, Math.max(delayMs, error.extra.retryAfterMs ?? 0), asked.signal);
    delayMs = Math.min(2 * delayMs, limits.batchRetryMsMax);
  }
}

/** @throws the reason of the signal; KeyRevoked; InputUnread. */
function refused(cause: unknown, { signal }: LineAsked): LineOutcome {
  signal.throwIfAborted();
  if (cause instanceof KeyRevoked || cause instanceof InputUnread) throw cause;
  const error = cause instanceof ApiError ? cause : fromErrorValue(toErrorValue(cause));
  return { type: 'refused', error, usage: NOTHING, settle() {} };
}

/** @returns null where it gave its place away. */
async function attempt(parts: LineParts, asked: LineAsked): Promise<LineOutcome | Outgrown | null> {
  const { owner, keyId, form } = asked;
  if (!parts.isKey(keyId)) throw new KeyRevoked();
  const policy = parts.policyOf(owner);
  checkEntry(policy, { user: owner, keyId }, form === 'embeddings' ? form : 'chat');
  const admission = await parts.accounts.unheld(owner, keyId, policy);
  const held = new HeldBytes(parts.memory, owner);
  let outcome: LineOutcome | Outgrown | null = null;
  try {
    held.set(asked.bytes);
    const bytes = bufferOf(await asked.body());
    const hold = (more: number) => held.set(more);
    const header = () => undefined;
    if (form === 'embeddings') {
      outcome = await embedded(parts, admission, held, { ...asked, policy, bytes });
      return outcome;
    }
    const chat = await parts.chats.prepare(
      { user: owner, policy },
      { form, bytes, header, hold, isBackground: true },
    );
    await admission.reserve(chat.tokensMax);
    await chat.reviewInput();
    // One that runs hears of an abort by an event, and that of now has been.
    asked.signal.throwIfAborted();
    if (!chat.keepsConversation) held.set(chat.keptBytes);
    outcome = await answered(chat, admission, asked, held);
    return outcome;
  } finally {
    held.giveBack();
    if (outcome === null) admission.settle(NOTHING);
  }
}

function bufferOf({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength);
}

async function answered(
  chat: ReadyChat,
  admission: Admission,
  { signal, evaluated }: LineAsked,
  held: HeldBytes,
): Promise<LineOutcome | Outgrown | null> {
  const running: { run: RunningChat | null } = { run: null };
  const stop = () => running.run?.cancel();
  const hold = (bytes: number) => held.add(bytes);
  const reply = new ChatReply(chat, { onContent: evaluated, hold, stop });
  const run = chat.run(reply);
  running.run = run;
  signal.addEventListener('abort', stop);
  const ended = reply.whole.finally(() => signal.removeEventListener('abort', stop));
  const refusal = await held.refusalOf(ended);
  const usage = usedBy(chat, run);
  const settle = (isCharged: boolean) => admission.settle(isCharged ? usage : NOTHING);
  if (signal.aborted) return { type: 'cut', usage, settle };
  if (refusal !== null) return { type: 'outgrown', error: refusal, usage, settle };
  if (run.preempted) return null;
  const note = chatNote(chat);
  noteEnd(note, chat, run);
  return {
    type: 'answered',
    body: reply.body(usage).toString(),
    usage,
    note: { chat: note },
    settle,
  };
}

function usedBy(chat: ReadyChat, run: RunningChat): BatchUsage {
  if (!run.started) return NOTHING;
  const { cachedTokens, reasoningTokens } = run;
  const promptTokens = chat.usedPromptTokens(run);
  return { promptTokens, cachedTokens, completionTokens: run.tokens(null), reasoningTokens };
}
