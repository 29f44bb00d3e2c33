/**
 * Owns the items of responses as they are shown and kept: what the model made, and what it was given.
 * It must never parse the arguments of a call: they stay as the model wrote them.
 */
import { limits } from '../limits/index.js';
import type { Usage } from './completion.js';
import type { FunctionName } from './responses-tools.js';
import { isObject, type JsonObject } from './schema.js';

export type ItemStatus = 'in_progress' | 'completed' | 'incomplete';

export type ResponseStatus =
  | 'queued'
  | 'in_progress'
  | 'completed'
  | 'incomplete'
  | 'failed'
  | 'cancelled';

/** What changes while a response is made. */
export interface ResponseState {
  readonly status: ResponseStatus;
  readonly output: readonly JsonObject[];
  readonly usage: Usage | null;
  readonly error: JsonObject | null;
}

/** What the id of an item begins with, by its type. */
const PREFIXES: Readonly<Record<string, string>> = {
  message: 'msg',
  function_call: 'fc',
  function_call_output: 'fco',
  reasoning: 'rs',
  compaction: 'cmp',
};

const ID = /^[a-z]{2,5}_([0-9a-f]{32})([0-9a-f]{4})$/;
/** Items that were given have the upper half of the numbers. */
const GIVEN = 0x8000;

/** An id leads to the response or conversation that the item is part of. @param of the id of that, without its prefix. */
export function itemId(type: string, of: string, at: number): string {
  return `${PREFIXES[type] ?? 'item'}_${of}${at.toString(16).padStart(4, '0')}`;
}

/** null for an id that was never made here. */
export function partOf(id: string): string | null {
  return ID.exec(id)?.[1] ?? null;
}

export function textItem(id: string, text: string, status: ItemStatus): JsonObject {
  const content = status === 'in_progress' ? [] : [textPart(text)];
  return { id, type: 'message', status, role: 'assistant', content };
}

export function textPart(text: string): JsonObject {
  return { type: 'output_text', text, annotations: [], logprobs: [] };
}

export interface CallShown extends FunctionName {
  readonly id: string;
  readonly callId: string;
}

export function callItem(
  { id, callId, name, namespace }: CallShown,
  text: string,
  status: ItemStatus,
): JsonObject {
  const call = { id, type: 'function_call', status, call_id: callId, name, arguments: text };
  return namespace ? { ...call, namespace } : call;
}

/** @param summarizes the thoughts are told as the summary. */
export function reasoningItem(id: string, text: string, summarizes: boolean): JsonObject {
  if (text === '') return { id, type: 'reasoning', summary: [] };
  return summarizes
    ? { id, type: 'reasoning', summary: [{ type: 'summary_text', text }] }
    : { id, type: 'reasoning', summary: [], content: [{ type: 'reasoning_text', text }] };
}

/** Says that the text is readable, and who can read it. */
const SUMMARY_PREFIX = 'preface-summary-1:';

export function compactionItem(id: string, summary: string): JsonObject {
  const text = Buffer.from(summary).toString('base64url');
  return { id, type: 'compaction', encrypted_content: SUMMARY_PREFIX + text };
}

/** null where another service made it. */
export function summaryOf(encryptedContent: string): string | null {
  if (!encryptedContent.startsWith(SUMMARY_PREFIX)) return null;
  return Buffer.from(encryptedContent.slice(SUMMARY_PREFIX.length), 'base64url').toString();
}

/** What was given, in the form in which it is listed; an id of its own where it has none. */
export function givenItems(items: readonly JsonObject[], of: string, from = 0): JsonObject[] {
  return items.map((item, at) => givenItem(item, of, GIVEN + from + at));
}

/** Items as they are stored: what was given, and what was made of it. */
export interface KeptItems {
  /** The id of what they are part of, without its prefix. */
  readonly of: string;
  /** Number of the first that was given; null: it follows from the number of the part. */
  readonly from: number | null;
  /** JSON of a list. */
  readonly input: string;
  readonly output: readonly JsonObject[];
  /** Where deleted items stood: their ids stay cursors of a list. Absent where there are none. */
  readonly gone?: readonly GoneItem[];
}

export interface GoneItem {
  readonly id: string;
  /** How many of the items that are left stand in front of it. */
  readonly behind: number;
}

/** A place in a list of items. */
export interface ItemPlace {
  readonly id: unknown;
  /** null: it was deleted. */
  readonly item: JsonObject | null;
}

/** A record of items as it lies in the store. A conversation has several, with a number each; a response has one. */
export interface StoredPart {
  readonly number: number;
  readonly bytes: Uint8Array;
}

/** Stored parts: how large they are, and how they are read. */
export interface KeptParts {
  readonly bytes: number;
  /** @throws ApiError for what has gone meanwhile. */
  read(): readonly StoredPart[];
}

/** @param part its number. */
export function keptItems({ of, from, input, output }: KeptItems, part = 0): JsonObject[] {
  const first = from ?? part * limits.conversationAddMax;
  return [...givenItems(JSON.parse(input) as JsonObject[], of, first), ...output];
}

/** The same with the places of what was deleted. */
export function keptPlaces(kept: KeptItems, part = 0): ItemPlace[] {
  const items = keptItems(kept, part);
  const places: ItemPlace[] = [];
  let shown = 0;
  const show = (end: number) => {
    for (const item of items.slice(shown, end)) places.push({ id: item.id, item });
    shown = end;
  };
  for (const { id, behind } of kept.gone ?? []) {
    show(behind);
    places.push({ id, item: null });
  }
  show(items.length);
  return places;
}

/** Takes an item out and keeps its place. @returns null where the part has no such item. */
export function withoutItem(kept: KeptItems, part: number, id: string): KeptItems | null {
  const left: JsonObject[] = [];
  const gone: GoneItem[] = [];
  let isFound = false;
  for (const place of keptPlaces(kept, part)) {
    const { item } = place;
    if (item !== null && place.id !== id) left.push(item);
    else gone.push({ id: String(place.id), behind: left.length });
    isFound ||= item !== null && place.id === id;
  }
  const { of, from } = kept;
  return isFound ? { of, from, input: JSON.stringify(left), output: [], gone } : null;
}

const STATELESS = new Set(['reasoning', 'compaction']);

function givenItem(item: JsonObject, of: string, at: number): JsonObject {
  const type = typeof item.type === 'string' ? item.type : 'message';
  const kept = Object.fromEntries(
    Object.entries(item).filter(
      ([key, value]) => value !== null && key !== 'prompt_cache_breakpoint',
    ),
  );
  const id =
    typeof item.id === 'string' && partOf(item.id) !== null ? item.id : itemId(type, of, at);
  const status = STATELESS.has(type) ? {} : { status: 'completed' };
  return { ...kept, id, type, ...status, ...givenParts(type, item) };
}

function givenParts(type: string, item: JsonObject): JsonObject {
  if (type === 'message') return { content: givenContent(item) };
  const { output } = item;
  if (type !== 'function_call_output' || !Array.isArray(output)) return {};
  return { output: output.map((each: unknown) => (isObject(each) ? withDetail(each) : each)) };
}

function givenContent({ role, content }: JsonObject): readonly unknown[] {
  const isAnswer = role === 'assistant';
  const part = (text: unknown) =>
    isAnswer ? textPart(String(text)) : { type: 'input_text', text };
  if (!Array.isArray(content)) return [part(content)];
  return content.map((each: unknown) => {
    if (!isObject(each)) return each;
    if (each.type === 'input_image') return withDetail(each);
    return each.type === 'refusal' ? each : part(each.text);
  });
}

/** Clients read the field of every image. */
function withDetail(part: JsonObject): JsonObject {
  return part.type === 'input_image' ? { ...part, detail: part.detail ?? 'auto' } : part;
}
