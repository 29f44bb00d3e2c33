/**
 * Owns the words in which the parts tell what they did, to be counted and logged by whoever listens.
 * It must never hold a key, or the text of a message or an answer.
 */

/** Why a named cache was no hit. The words are few, so that each can be counted. */
export const missClasses = [
  'unnamed',
  'unknown',
  'failed',
  'family',
  'content',
  'pending',
  'expired',
  'engine',
] as const;

export type MissClass = (typeof missClasses)[number];

/** Whole microseconds; null for what is not over. */
export interface ChatTimes {
  /** Until the engine has a place for it and what it reuses is loaded. */
  readonly queueUs: number;
  readonly tokenizeUs: number;
  /** Finding and comparing the cache that the chat names. */
  readonly cacheUs: number;
  /** The rest of the prompt, up to the first token. */
  readonly prefillUs: number | null;
  /** From the first token to the end. */
  readonly generateUs: number | null;
}

/** What a chat did; filled in as it goes, and as true as it is at each moment. */
export interface ChatNote {
  readonly model: string;
  readonly stream: boolean;
  promptTokens: number;
  /** Of the prompt, those the engine did not evaluate. */
  cachedTokens: number;
  completionTokens: number;
  /** What became of the cache that the chat named: `hit`, `miss`, …; null for none named. */
  cacheStatus: string | null;
  missClass: MissClass | null;
  /** null until it is over, and for one that the engine never began. */
  times: ChatTimes | null;
}

/** What handlers add to the account of their request. */
export interface RequestNote {
  account: string | null;
  chat: ChatNote | null;
  /** From the request's start to the first text or tool call of its answer. */
  firstContentMs: number | null;
  /** Type of the error that was answered, also in mid-stream. */
  errorType: string | null;
}

/** One row of the routes; the same object each time. */
export interface RouteName {
  readonly method: string;
  /** The pattern: never what a client wrote. */
  readonly path: string;
}

export interface RequestReport {
  readonly type: 'request';
  readonly requestId: string;
  /** Null where no route was found. */
  readonly route: RouteName | null;
  /** 499 where the client left before it had one. */
  readonly status: number;
  readonly durationMs: number;
  readonly note: RequestNote;
}

export type Report =
  | RequestReport
  /** A child process or a thread ended by itself; another takes its place. */
  | { readonly type: 'worker-ended'; readonly worker: WorkerKind; readonly reason: string }
  | {
      readonly type: 'extraction';
      /** A media type of the extractor's, never what an uploader wrote; `unknown` where none took it or it never was read. */
      readonly format: string;
      /** `failed`: the document's fault. `broken`: not, and it is tried again. */
      readonly outcome: 'ok' | 'failed' | 'broken' | 'overloaded';
      readonly durationMs: number;
    }
  /** A failure that is ours, where it happened. */
  | { readonly type: 'fault'; readonly place: string; readonly fault: unknown }
  | { readonly type: 'notice'; readonly text: string };

export type WorkerKind = 'inference' | 'tokenize' | 'extraction';

/** Handed in by the one who composes. It never throws and costs microseconds. */
export type TakeReport = (report: Report) => void;

/** One line of text for those who keep no structure. */
export function reportText(report: Report): string {
  switch (report.type) {
    case 'request':
      return `${report.requestId} ${routeText(report.route)} ${report.status} ${report.durationMs.toFixed(1)} ms`;
    case 'worker-ended':
      return `${report.worker} worker ended: ${report.reason}`;
    case 'extraction':
      return `extraction of ${report.format}: ${report.outcome}`;
    case 'fault':
      return `${report.place}: ${faultText(report.fault)}`;
    case 'notice':
      return report.text;
  }
}

export function routeText(route: RouteName | null): string {
  return route === null ? 'no route' : `${route.method} ${route.path}`;
}

export function faultText(fault: unknown): string {
  return fault instanceof Error ? (fault.stack ?? fault.message) : String(fault);
}
