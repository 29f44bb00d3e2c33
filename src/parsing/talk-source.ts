/**
 * Owns the type of a conversation's content: what makes up a prompt, an upstream's request and the texts of a review.
 * It must never hold a field that a prompt does not have.
 */
import type { ChatMessage } from '../protocol/message.js';
import type { ChatTool } from '../protocol/tool.js';

export interface TalkSource {
  readonly messages: readonly ChatMessage[];
  readonly tools: readonly ChatTool[];
  /** The last message is the beginning of the answer. */
  readonly partial: boolean;
}
