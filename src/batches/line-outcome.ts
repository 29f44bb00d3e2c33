/**
 * Owns what one attempt at a line of a batch comes to.
 * It must never charge by itself: who keeps the answer says whether it counts.
 */
import type { ApiError } from '../errors.js';
import { accountOf } from '../rules/account-policy.js';
import type { BatchUsage } from '../rules/batch-state.js';
import type { RequestNote, RequestReport } from '../telemetry/report.js';

/** What the history shows of it. */
export type LineNote = Pick<RequestNote, 'chat' | 'vectors'>;

export type LineOutcome =
  | {
      readonly type: 'answered';
      readonly body: string;
      readonly usage: BatchUsage;
      readonly note: LineNote;
      /** Once the answer is kept, or never. */
      settle(isCharged: boolean): void;
    }
  /** It was told to stop. */
  | { readonly type: 'cut'; readonly usage: BatchUsage; settle(isCharged: boolean): void }
  | {
      readonly type: 'refused';
      readonly error: ApiError;
      readonly usage: BatchUsage;
      settle(isCharged: boolean): void;
    };

/** It found no room for its answer: it may run again. */
export interface Outgrown {
  readonly type: 'outgrown';
  readonly error: ApiError;
  readonly usage: BatchUsage;
  settle(isCharged: boolean): void;
}

export const NOTHING: BatchUsage = { promptTokens: 0, cachedTokens: 0, completionTokens: 0 };

interface LineRan {
  readonly requestId: string;
  readonly owner: string;
  readonly endpoint: string;
  readonly durationMs: number;
}

export function lineReport(ran: LineRan, outcome: LineOutcome): RequestReport {
  const { requestId, owner, endpoint, durationMs } = ran;
  const refused = outcome.type === 'refused' ? outcome.error : null;
  const used: LineNote = outcome.type === 'answered' ? outcome.note : { chat: null };
  return {
    type: 'request',
    inBatch: true,
    requestId,
    route: { method: 'POST', path: endpoint },
    status: refused?.status ?? (outcome.type === 'cut' ? CUT : 200),
    durationMs,
    // Nobody waits for the first words of a line.
    note: {
      ...used,
      account: accountOf(owner),
      firstContentMs: null,
      errorType: refused?.type ?? null,
    },
  };
}

/** As of a client that left. */
const CUT = 499;
