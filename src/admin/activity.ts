/**
 * Owns what an operator reads of the last hour and day: the history, the newest requests and lines of the log.
 * It must never read a user's data: all of it is made of reports.
 */
import { tenthMs } from '../clock.js';
import type {
  WireHistory,
  WireLogLine,
  WireRecentRequest,
  WireSpan,
} from '../protocol/admin-activity.js';
import type { History } from '../telemetry/history.js';
import type { Recent, RecentLine, RecentRequest } from '../telemetry/recent.js';
import type { ChatTimes } from '../telemetry/report.js';

export interface ActivityParts {
  readonly history: Pick<History, 'table'>;
  readonly recent: Pick<Recent, 'requests' | 'lines'>;
}

export class Activity {
  constructor(readonly parts: ActivityParts) {}

  history(span: WireSpan): WireHistory {
    const { stepS, steps, firstS, columns, firstContent } = this.parts.history.table(span);
    return {
      object: 'history',
      span,
      step_seconds: stepS,
      steps,
      first_at: firstS,
      ...copied(columns),
      first_content_ms: copied(firstContent),
    };
  }

  /** The newest first. */
  requests(): WireRecentRequest[] {
    return this.parts.recent.requests().map(requestJson);
  }

  /** The newest first. */
  lines(): WireLogLine[] {
    return this.parts.recent.lines().map(lineJson);
  }
}

function copied<Name extends string, Value>(
  columns: Readonly<Record<Name, readonly Value[]>>,
): Record<Name, Value[]> {
  const entries = Object.entries<readonly Value[]>(columns).map(([name, of]) => [name, [...of]]);
  return Object.fromEntries(entries) as Record<Name, Value[]>;
}

function requestJson({ sequence, endedMs, report }: RecentRequest): WireRecentRequest {
  const { requestId, route, status, durationMs, note, inBatch = false } = report;
  const { chat, vectors, account, errorType, firstContentMs } = note;
  return {
    object: 'request',
    id: `rq-${sequence}`,
    request_id: requestId,
    created_at: Math.round(endedMs - durationMs) / 1000,
    method: route?.method ?? '',
    route: route?.path ?? '',
    in_batch: inBatch,
    status,
    user: account,
    duration_ms: tenthMs(durationMs),
    first_content_ms: firstContentMs === null ? null : tenthMs(firstContentMs),
    error_type: errorType,
    model: chat?.model ?? vectors?.model ?? null,
    stream: chat?.stream ?? null,
    prompt_tokens: chat?.promptTokens ?? vectors?.promptTokens ?? null,
    cached_tokens: chat?.cachedTokens ?? null,
    completion_tokens: chat?.completionTokens ?? null,
    cache_status: chat?.cacheStatus ?? null,
    miss_reason: chat?.missReason ?? null,
    stages: chat?.times ? stagesJson(chat.times) : null,
  };
}

function stagesJson(times: ChatTimes): NonNullable<WireRecentRequest['stages']> {
  return {
    tokenize_ms: ms(times.tokenizeUs),
    cache_ms: ms(times.cacheUs),
    queue_ms: ms(times.queueUs),
    prefill_ms: times.prefillUs === null ? null : ms(times.prefillUs),
    generate_ms: times.generateUs === null ? null : ms(times.generateUs),
  };
}

function ms(us: number): number {
  return tenthMs(us / 1000);
}

function lineJson({ sequence, atMs, level, text }: RecentLine): WireLogLine {
  return { object: 'log.line', id: `ln-${sequence}`, created_at: atMs / 1000, level, text };
}
