/**
 * Owns what an engine that forwards messages gets: the checked conversation, and the allowed form of the answer.
 * It must never hold an unchecked field: an upstream gets nothing that was not read here.
 */
import type { TalkSource } from '../parsing/talk-source.js';
import type {
  Conversation,
  ConversationMessage,
  ConversationPart,
  ConversationRequest,
} from '../plugin/contract.js';
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
  const { templateArgs, reasoningEffort } = settings;
  const asked = { partial, prefixMessages, toolChoice, parallelToolCalls, responseFormat, stop };
  const { messages, tools } = conversationOf(talk);
  const callable = new Set(settings.tools.map(({ name }) => name));
  return {
    messages,
    tools: tools.filter(({ name }) => callable.has(name)),
    ...asked,
    ...(templateArgs === undefined ? {} : { templateArgs }),
    ...(reasoningEffort === null ? {} : { reasoningEffort }),
  };
}

function conversationMessage(message: ChatMessage): ConversationMessage {
  const { role, content, name, toolCalls, toolCallId } = message;
  const shared = { role, name, toolCalls, toolCallId };
  if (typeof content === 'string') return { content, ...shared };
  const text = content.map((part) => (part.type === 'text' ? part.text : '')).join('');
  const parts = content.map(
    (part): ConversationPart => (part.type === 'text' ? part : { type: 'image', url: part.url }),
  );
  return { content: text, parts, ...shared };
}
