/**
 * Owns the bounds of fetching weights.
 * It must be used through `limits` alone, where its relations are asserted.
 */

export const weightsLimits = {
  /** A hub that cannot be reached must not hold up the next source. */
  hubAnswerMsMax: 5_000,
  hubStallMsMax: 30_000,
  hubRedirectsMax: 5,
  /** A connection that breaks is continued this often. */
  hubAttemptsMax: 5,
  wheelMsMax: 30 * 60_000,
  /** The process that fetches says this often that it lives. */
  weightsLockBeatMs: 2_000,
  weightsLockStaleMs: 15_000,
  weightsLockPollMs: 250,
  weightsLockWaitMsMax: 60 * 60_000,
  progressLineMs: 5_000,
} as const;
