/**
 * Owns the rule that moves lines which change with every request from the first messages of a conversation to its end.
 * It must stay pure and know nothing of earlier requests: the same conversation always becomes the same one.
 */
import type { ChatRequest } from '../protocol/chat.js';
import { type ChatMessage, readMessages } from '../protocol/message.js';
import type { WireMessage } from '../protocol/message-schema.js';

/** A longer line is content. */
const LINE_LENGTH_MAX = 300;

const BILLING = /^\s*x-anthropic-billing-header\s*:/i;
const TIME = /\b\d{1,2}:\d{2}(:\d{2})?\b/;
const STAMP = /\b\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}|\b1[6-9]\d{8}(\d{3})?\b/;
const NAMES_TIME = /\b(time|date|clock|now|today|currently|timestamp)\b/i;
const COUNTER =
  /\b(request|session|conversation|message|trace|turn|run)[ _-]?(id|no\.?|number|count|#)?\s*[:=#]\s*\S*\d/i;

/** A line with a billing mark, a time of day, or the number of a request. */
export function isVolatile(line: string): boolean {
  if (line.length > LINE_LENGTH_MAX) return false;
  if (BILLING.test(line) || STAMP.test(line) || COUNTER.test(line)) return true;
  return TIME.test(line) && NAMES_TIME.test(line);
}

type Content = WireMessage['content'];
type Moved = Pick<ChatRequest, 'messages' | 'wireMessages' | 'marks'>;

/** The volatile lines of the first system messages, behind the last message: that one is new in each request anyway. */
export function movedVolatile<Request extends Moved>(request: Request): Request {
  const wire = request.wireMessages as readonly WireMessage[];
  const last = wire.at(-1);
  const system = wire.findIndex(({ role }) => role !== 'system' && role !== 'developer');
  if (system <= 0 || (last?.role !== 'user' && last?.role !== 'tool')) return request;
  const lines: string[] = [];
  const first = wire.slice(0, system).map((message) => cleaned(message, lines));
  if (lines.length === 0) return request;
  const end = { ...last, content: withLines(last.content, lines) } as WireMessage;
  const wireMessages = [...first, ...wire.slice(system, -1), end];
  const reread = (message: ChatMessage, at: number) =>
    first[at] === wire[at] ? message : (readMessages([first[at] as WireMessage])[0] ?? message);
  const messages = request.messages.map((message, at) => {
    if (at < system) return reread(message, at);
    return at === wire.length - 1 ? longer(message, lines) : message;
  });
  return { ...request, messages, wireMessages, marks: request.marks.map(beforeLast(wire.length)) };
}

/** What is moved to the last message must not be kept with it. */
function beforeLast(length: number) {
  return (mark: Moved['marks'][number]): Moved['marks'][number] =>
    mark.messages === length ? { ...mark, messages: length - 1, parts: null } : mark;
}

/** A part without its lines stays, so that parts keep their numbers. */
function cleaned(message: WireMessage, lines: string[]): WireMessage {
  const { content } = message;
  const before = lines.length;
  const clean = (text: string) => withoutVolatile(text, lines);
  const now: unknown =
    typeof content === 'string'
      ? clean(content)
      : content?.map((part) => (part.type === 'text' ? { ...part, text: clean(part.text) } : part));
  return lines.length === before ? message : ({ ...message, content: now } as WireMessage);
}

function withoutVolatile(text: string, lines: string[]): string {
  const kept: string[] = [];
  for (const line of text.split('\n')) {
    if (isVolatile(line)) lines.push(line);
    else kept.push(line);
  }
  return kept.join('\n');
}

function withLines(content: Content, lines: readonly string[]): Content {
  const text = textOf(lines);
  if (content === null || content === undefined) return text;
  if (typeof content === 'string') return content + text;
  return [...content, { type: 'text', text }] as Content;
}

/** Its images stay as they were read. */
function longer(message: ChatMessage, lines: readonly string[]): ChatMessage {
  const { content } = message;
  const text = textOf(lines);
  if (typeof content === 'string') return { ...message, content: content + text };
  return { ...message, content: [...content, { type: 'text', text }] };
}

function textOf(lines: readonly string[]): string {
  return `\n\n${lines.join('\n')}`;
}
