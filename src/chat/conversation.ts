/**
 * Owns what an engine that forwards messages gets: the checked conversation, and the allowed form of the answer.
 * It must never hold an unchecked field: an upstream gets nothing that was not read here.
 */
import type { Conversation, ConversationMessage, ConversationRequest } from '../plugin/contract.js';
import type { ChatRequest } from '../protocol/chat.js';
import type { ChatMessage } from '../protocol/message.js';
import type { ChatTool } from '../protocol/tool.js';

export function conversationOf(
  messages: readonly ChatMessage[],
  tools: readonly ChatTool[],
): Conversation {
  return { messages: messages.map(conversationMessage), tools };
}

/** @param prefixMessages how many of the messages a cache holds. */
export function conversationRequest(
  request: ChatRequest,
  prefixMessages: number,
): ConversationRequest {
  const { messages, tools, partial, toolChoice, parallelToolCalls, responseFormat, stop } = request;
  const asked = { partial, prefixMessages, toolChoice, parallelToolCalls, responseFormat, stop };
  return { ...conversationOf(messages, tools), ...asked };
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
