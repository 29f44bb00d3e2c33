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
  /** The look into a file: its head and its vocabulary. */
  weightsLookMsMax: 120_000,
  weightsLookBytesMax: 2 ** 20,
  /** A file of up to this size is converted before the service begins: a few seconds for each type. */
  convertAtStartBytesMax: 512 * 2 ** 20,
  /** A conversion is chosen where prompts become so much quicker, */
  convertPromptGainMin: 1.3,
  /** streams keep this share of their speed, */
  convertStreamShareMin: 0.9,
  /** and the perplexity of a text grows by no more than this factor. */
  convertPerplexityMax: 1.02,
  progressLineMs: 5_000,
} as const;
