/**
 * Owns the form of a conversation's content: what makes up a prompt, an upstream's request and the texts of a review.
 * It must never hold a field that a prompt does not have.
 */
import type { ChatMessage } from '../protocol/message.js';
import type { RawPrompt } from '../protocol/raw-prompt.js';
import type { JsonObject } from '../protocol/schema.js';
import type { ChatTool } from '../protocol/tool.js';

/** Messages that nothing can be added to. */
export function wholeMessages({ messages, partial }: TalkSource): number {
  return messages.length - (partial ? 1 : 0);
}

export interface TalkSource {
  readonly messages: readonly ChatMessage[];
  readonly tools: readonly ChatTool[];
  /** The last message is the beginning of the answer. */
  readonly partial: boolean;
  /** Further variables of the template; absent for none. */
  readonly templateArgs?: JsonObject;
  /** In place of a conversation. */
  readonly rawPrompt?: RawPrompt;
}

/** Of a request: one for each raw prompt, else one for its conversation. */
export function talkSources(
  request: TalkSource & { readonly rawPrompts: readonly RawPrompt[] },
): readonly [TalkSource, ...TalkSource[]] {
  const [first, ...others] = request.rawPrompts;
  const conversation = talkSource(request);
  if (first === undefined) return [conversation];
  const ofPrompt = (rawPrompt: RawPrompt) => ({ ...conversation, rawPrompt });
  return [ofPrompt(first), ...others.map(ofPrompt)];
}

export function talkSource({
  messages,
  tools,
  partial,
  templateArgs,
  rawPrompt,
}: TalkSource): TalkSource {
  const args = templateArgs === undefined ? {} : { templateArgs };
  const raw = rawPrompt === undefined ? {} : { rawPrompt };
  return { messages, tools, partial, ...args, ...raw };
}
