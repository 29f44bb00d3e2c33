/**
 * Owns the bounds of what is asked of other servers: how many, how long, how much they may say.
 * It must be used through `limits` alone, where its relations are asserted.
 */

const MIB = 2 ** 20;

export const upstreamLimits = {
  upstreamsMax: 64,
  /** Connections to one upstream, a request each. */
  upstreamConnectionsMax: 512,
  /** Shorter than servers keep an idle connection (uvicorn 5 s, uWebSockets.js 10 s): who closes first must be us. */
  upstreamKeepAliveMs: 4_000,
  /** Of a prefix, what may stay outside of an upstream's cache for its blocks' sake: so many tokens, or this part. */
  upstreamUncachedTokensMax: 128,
  upstreamUncachedShareMax: 0.125,
  upstreamConnectMs: 5_000,
  /** A long prompt is evaluated before its first byte. */
  upstreamFirstByteMs: 5 * 60_000,
  upstreamSilenceMs: 60_000,
  upstreamHealthMs: 5_000,
  /** For the list of models, by which an upstream shows that it lives. */
  upstreamLookMsMax: 5_000,
  /** From the last event of an answer to the end of its body. */
  upstreamEndMsMax: 1_000,
  /** Tries of one request, on the same upstream or on others, all before its first byte. */
  upstreamAttemptsMax: 3,
  upstreamRetryMs: 100,
  /** Whoever is told to come back later than this comes back himself. */
  upstreamRetryMsMax: 2_000,
  /** One event of a stream; a whole tool call may be one. */
  upstreamEventBytesMax: MIB,
  /** UTF-16 units of the arguments of all tool calls of one answer. */
  upstreamCallsLengthMax: MIB,
  upstreamCallsMax: 128,
  /** Special tokens that are looked for in a template. */
  upstreamSpecialsMax: 256,
  /** Of an answer that is no stream: a refusal, a list of models, the ids of a text. */
  upstreamBodyBytesMax: 16 * MIB,
  /** UTF-16 units of what an upstream says of a refusal. */
  upstreamReasonLengthMax: 500,
} as const;
