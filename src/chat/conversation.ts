/**
 * Owns what an engine that forwards messages gets: the checked conversation, and the allowed form of the answer.
 * It must never hold an unchecked field: an upstream gets nothing that was not read here.
 */
import type { TalkSource } from '../parsing/talk-source.js';
import type { Conversation, ConversationMessage, ConversationRequest } from '../plugin/contract.js';
import type { ChatSettings } from '../protocol/chat.js';
import type { ChatMessage } from '../protocol/message.js';

export function conversationOf({
  messages,
  tools,
}: Pick<TalkSource, 'messages' | 'tools'>): Conversation {
  return { messages: messages.map(conversationMessage), tools };
}

/** @param prefixMessages how many of the messages a cache holds. */
export function conversationRequest(
  settings: ChatSettings,
  talk: TalkSource,
  prefixMessages: number,
): ConversationRequest {
  const { partial, toolChoice, parallelToolCalls, responseFormat, stop } = settings;
  const asked = { partial, prefixMessages, toolChoice, parallelToolCalls, responseFormat, stop };
  return { ...conversationOf(talk), ...asked };
}

function conversationMessage(message: ChatMessage): ConversationMessage {
  const { role, content, name, toolCalls, toolCallId } = message;
  // Content parts exist only where there is an image, and counting has refused images.
  const text =
    typeof content === 'string'
      ? content
      : content.map((part) => (part.type === 'text' ? part.text : '')).join('');
  return { role, content: text, name, toolCalls, toolCallId };
}
