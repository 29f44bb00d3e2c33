/**
 * Owns chats that begin with a message of role `cache`: what may stand beside it, and the chat that results.
 * It must never know where the cached messages come from.
 */
import { invalid } from '../errors.js';
import { type MessageOptions, readCacheMessage } from './cache-options.js';
import { type ChatRequest, parseChatRequest } from './chat.js';
import { shown } from './field.js';
import { withImageFields } from './message.js';
import { isObject, type JsonObject } from './schema.js';

/** Messages and tools as the client once sent them. */
export interface CachedContent {
  readonly messages: readonly JsonObject[];
  readonly tools: readonly JsonObject[];
}

/** Whether the first message is of role `cache`. */
export function beginsWithCache(value: unknown): boolean {
  return firstMessage(value).role === 'cache';
}

/** The options of the first message. Call it after the rest of the chat was checked. */
export function cacheMessage(value: unknown): MessageOptions {
  const { content } = firstMessage(value);
  if (typeof content === 'string') return readCacheMessage(content);
  throw invalid(
    `messages[0].content must be a string of options, got ${shown(content)}`,
    'messages[0].content',
  );
}

/**
 * Checks all that can be checked before the cache is known. A stand-in keeps the positions that errors name, and
 * calls and tools may be in the cache. The result lacks them and the cached messages.
 */
export function checkBesideCache(value: unknown): ChatRequest {
  const tools = isObject(value) ? value.tools : null;
  if (tools !== undefined && tools !== null) {
    throw invalid(
      `tools must be null when the first message has role 'cache', got ${shown(tools)}`,
      'tools',
    );
  }
  const messages = [STAND_IN, ...messagesOf(value).slice(1)];
  return parseChatRequest({ ...(value as object), messages, tool_choice: null }, { begins: false });
}

function firstMessage(value: unknown): JsonObject {
  const [first] = messagesOf(value);
  return isObject(first) ? first : {};
}

const STAND_IN = { role: 'system', content: '-' };

/** The chat with the cached messages in the place of the `cache` message, and the cached tools. */
export function parseCachedChat(value: unknown, cached: CachedContent): ChatRequest {
  const messages = [...cached.messages, ...messagesOf(value).slice(1)];
  const tools = cached.tools.length === 0 ? null : cached.tools;
  const shift = cached.messages.length - 1;
  const chat = { ...(value as object), messages, tools };
  const request = parseChatRequest(chat, { begins: true, shift });
  return { ...request, messages: withImageFields(request.messages, imageFields(request, shift)) };
}

/** As the client numbers the messages: what the cache holds stands in the first of them. */
function imageFields({ messages }: Pick<ChatRequest, 'messages'>, shift: number): string[] {
  return messages.flatMap(({ content }, position) =>
    typeof content === 'string'
      ? []
      : content.flatMap((part, at) => {
          if (part.type === 'text') return [];
          const sent = position - shift;
          return sent < 1 ? 'messages[0]' : `messages[${sent}].content[${at}].image_url.url`;
        }),
  );
}

function messagesOf(value: unknown): readonly unknown[] {
  const messages = isObject(value) ? value.messages : null;
  return Array.isArray(messages) ? messages : [];
}
