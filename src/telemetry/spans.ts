/**
 * Owns the form of the spans of one request: the request itself, and the phases of its chat below it.
 * It must never put into them what a client wrote.
 */
import type { ChatNote, ChatTimes, RequestReport } from './report.js';

type Value = { readonly stringValue: string } | { readonly intValue: string };

interface Attribute {
  readonly key: string;
  readonly value: Value;
}

/** As OTLP's JSON has it: ids in hexadecimal, 64-bit numbers as text. */
export interface Span {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  readonly kind: number;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly attributes: readonly Attribute[];
  readonly status?: { readonly code: number };
}

/** What a client says of its own span. */
export interface Parent {
  readonly traceId: string;
  readonly spanId: string;
  readonly isSampled: boolean;
}

export interface SpanParts {
  readonly report: RequestReport;
  /** Of the request, Unix time. */
  readonly endMs: number;
  readonly parent: Parent | null;
  readonly name: string;
  /** Of so many bytes. */
  readonly newId: (bytes: number) => string;
}

const [INTERNAL, SERVER] = [1, 2];
const FAILED = 2;
const FORM = /^(?!ff)[\da-f]{2}-(?!0{32})([\da-f]{32})-(?!0{16})([\da-f]{16})-([\da-f]{2})(?:-|$)/;

/** @param header the client's `traceparent`. null where it is none: the request begins a trace. */
export function parentOf(header: string | undefined): Parent | null {
  const [, traceId, spanId, flags = ''] = FORM.exec(header ?? '') ?? [];
  if (traceId === undefined || spanId === undefined) return null;
  return { traceId, spanId, isSampled: (Number.parseInt(flags, 16) & 1) === 1 };
}

/** The request first. */
export function spansOf({ report, endMs, parent, newId, name }: SpanParts): Span[] {
  const { status, durationMs, note } = report;
  const traceId = parent?.traceId ?? newId(16);
  const spanId = newId(8);
  const startUs = Math.round((endMs - durationMs) * 1000);
  const endUs = Math.round(endMs * 1000);
  const root: Span = {
    traceId,
    spanId,
    ...(parent === null ? {} : { parentSpanId: parent.spanId }),
    name,
    kind: SERVER,
    ...between(startUs, endUs),
    attributes: attributesOf(report),
    ...(status >= 500 ? { status: { code: FAILED } } : {}),
  };
  const times = note.chat?.times ?? null;
  const phases = times === null ? [] : phasesOf(times, startUs, endUs);
  const below = phases.map(({ phase, at, until }) => ({
    traceId,
    spanId: newId(8),
    parentSpanId: spanId,
    name: phase,
    kind: INTERNAL,
    ...between(at, until),
    attributes: [],
  }));
  return [root, ...below];
}

interface Phase {
  readonly phase: string;
  readonly at: number;
  readonly until: number;
}

/**
 * Their lengths are measured; their places follow from the order in which a chat goes through them: a cache is looked
 * for and tokens are counted at the beginning, and generation ends with the request.
 */
function phasesOf(times: ChatTimes, startUs: number, endUs: number): Phase[] {
  const { cacheUs, tokenizeUs, queueUs, prefillUs, generateUs } = times;
  const phases: Phase[] = [];
  let at = startUs;
  for (const [phase, us] of [
    ['cache', cacheUs],
    ['tokenize', tokenizeUs],
  ] as const) {
    phases.push({ phase, at, until: Math.min(endUs, at + us) });
    at = Math.min(endUs, at + us);
  }
  const first = at;
  let until = endUs;
  for (const [phase, us] of [
    ['generate', generateUs],
    ['prefill', prefillUs],
    ['queue', queueUs],
  ] as const) {
    if (us === null) continue;
    const from = Math.max(first, until - us);
    phases.push({ phase, at: from, until });
    until = from;
  }
  return phases;
}

function between(startUs: number, endUs: number) {
  return { startTimeUnixNano: `${startUs}000`, endTimeUnixNano: `${endUs}000` };
}

function attributesOf({ route, status, requestId, note }: RequestReport): Attribute[] {
  const { chat, vectors, errorType } = note;
  return [
    ...(route === null
      ? []
      : [text('http.request.method', route.method), text('http.route', route.path)]),
    number('http.response.status_code', status),
    text('preface.request_id', requestId),
    ...(errorType === null ? [] : [text('error.type', errorType)]),
    ...(chat === null ? [] : chatAttributes(chat)),
    ...(vectors === undefined
      ? []
      : [
          text('gen_ai.request.model', vectors.model),
          number('gen_ai.usage.input_tokens', vectors.promptTokens),
        ]),
  ];
}

function chatAttributes(chat: ChatNote): Attribute[] {
  const { model, promptTokens, cachedTokens, completionTokens, cacheStatus, missClass } = chat;
  return [
    text('gen_ai.request.model', model),
    number('gen_ai.usage.input_tokens', promptTokens),
    number('gen_ai.usage.output_tokens', completionTokens),
    number('preface.cached_tokens', cachedTokens),
    ...(cacheStatus === null ? [] : [text('preface.cache.status', cacheStatus)]),
    ...(missClass === null ? [] : [text('preface.cache.miss', missClass)]),
  ];
}

function text(key: string, stringValue: string): Attribute {
  return { key, value: { stringValue } };
}

function number(key: string, value: number): Attribute {
  return { key, value: { intValue: String(value) } };
}
