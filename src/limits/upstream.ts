/**
 * Owns the bounds of requests to upstreams: how many, how long, and the size of their answers.
 * It must be used through `limits` alone, where its relations are asserted.
 */

const MIB = 2 ** 20;

export const upstreamLimits = {
  upstreamsMax: 64,
  /** Connections to one upstream; each carries one request at a time. */
  upstreamConnectionsMax: 512,
  /** Shorter than servers keep an idle connection (uvicorn 5 s, uWebSockets.js 10 s): this side must close first. */
  upstreamKeepAliveMs: 4_000,
  /** Part of a prefix that an upstream may leave out of its cache, since it caches whole blocks: in tokens, or as a share. */
  upstreamUncachedTokensMax: 128,
  upstreamUncachedShareMax: 0.125,
  /** Of the lines before the body of an answer. */
  upstreamHeadBytesMax: 16 * 1024,
  /** Of an answer, that have come and are not read: then its connection pauses. */
  upstreamHeldBytesMax: 64 * 1024,
  upstreamConnectMs: 5_000,
  /** A long prompt is evaluated before its first byte. */
  upstreamFirstByteMs: 5 * 60_000,
  upstreamSilenceMs: 60_000,
  upstreamHealthMs: 5_000,
  /** For the list of models, which is the health check of an upstream. */
  upstreamLookMsMax: 5_000,
  /** From the last event of an answer to the end of its body. */
  upstreamEndMsMax: 1_000,
  /** Attempts of one request, on one upstream or several, before the first byte of an answer. */
  upstreamAttemptsMax: 3,
  upstreamRetryMs: 100,
  /** An upstream's longer retry-after is passed on to the client. */
  upstreamRetryMsMax: 2_000,
  /** One event of a stream; a whole tool call may be one. */
  upstreamEventBytesMax: MIB,
  /** From one event to the next; comments between them are none. */
  upstreamEventMsMax: 10 * 60_000,
  /** UTF-16 units of one token: vocabularies have runs of 128 blanks. */
  upstreamTokenLengthMax: 128,
  /** Of one token as it comes: a chunk with twenty chances is some 3 kB. */
  upstreamTokenBytesMax: 16 * 1024,
  /** UTF-16 units of the arguments of all tool calls of one answer. */
  upstreamCallsLengthMax: MIB,
  upstreamCallsMax: 128,
  /** Special tokens that are searched for in a template. */
  upstreamSpecialsMax: 256,
  /** Of an answer that is no stream: an error, a list of models, the ids of a text. */
  upstreamBodyBytesMax: 16 * MIB,
  /** Inputs of one request for vectors: each answer stays below the bound of a body. */
  upstreamVectorInputsMax: 64,
  /** UTF-16 units of an upstream's error message. */
  upstreamReasonLengthMax: 500,
} as const;
