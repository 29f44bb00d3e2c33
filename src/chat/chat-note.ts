/**
 * Owns what is noted of a chat for the log, the metrics and the history.
 * It must never hold a text.
 */
import type { ChatNote } from '../telemetry/report.js';
import type { RunningChat } from './generation.js';
import type { ReadyChat } from './ready-chat.js';

/** Before it runs. */
export function chatNote({ head, request, promptTokens, cache }: ReadyChat): ChatNote {
  const predicted = cache?.predicted();
  return {
    model: head.model,
    stream: request.stream,
    promptTokens,
    cachedTokens: 0,
    completionTokens: 0,
    draftedTokens: 0,
    acceptedTokens: 0,
    cacheStatus: predicted?.status ?? null,
    missClass: predicted?.missClass ?? null,
    missReason: predicted?.missReason ?? null,
    times: null,
  };
}

/** Notes how far the chat came, with the counts that the account is charged for. */
export function noteEnd(note: ChatNote, chat: ReadyChat, generation: RunningChat): void {
  note.promptTokens = chat.usedPromptTokens(generation);
  note.cachedTokens = generation.cachedTokens;
  note.completionTokens = generation.tokens(null);
  note.draftedTokens = generation.drafts.tried;
  note.acceptedTokens = generation.drafts.taken;
  // A generation that never began has no times.
  if (generation.started) note.times = chat.times(generation);
  const outcome = chat.cache?.outcome(generation.reusedTokens);
  note.cacheStatus = outcome?.status ?? null;
  note.missClass = outcome?.missClass ?? null;
  note.missReason = outcome?.missReason ?? null;
}
