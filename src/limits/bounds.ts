/**
 * Owns every bound of the service, each number once; that they fit each other is asserted at load.
 * No other file but its parts may hold a bound on a queue, a body, a list or a wait.
 */

import { extractionLimits } from './extraction.js';
import { reviewLimits } from './review.js';
import { upstreamLimits } from './upstream.js';
import { weightsLimits } from './weights.js';

const KIB = 1024;
const MIB = 1024 * KIB;

export const limits = {
  // HTTP edge
  bodyBytesMax: 8 * MIB,
  headerBytesMax: 16 * KIB,
  headerCountMax: 64,
  jsonDepthMax: 64,
  /** Arrays, objects and scalars of one body. A chat of 4 096 messages with calls and parts has half of them. */
  jsonValuesMax: 65_536,
  /** Events gathered for one write; one write is all that waits for a slow reader before its generation pauses. */
  streamBacklogBytesMax: 16 * KIB,
  /** A writer that ignores back-pressure beyond this loses its connection. */
  streamBacklogBytesHardMax: MIB,
  /** Body bytes taken in before anybody asked for the body; then the socket is paused. */
  bodyAheadBytesMax: 64 * KIB,
  /** Bodies of all requests together, until each is whole and read. */
  bodyBytesHeldMax: 256 * MIB,
  /** When to come back while others' bodies take that room. */
  bodyRetryMs: 1_000,
  /** An answered request may send this much more body and keep its connection. */
  bodyDiscardBytesMax: MIB,
  /** How long a refused sender of a large body may go on, so that it gets to read its answer. */
  lingerMsMax: 5_000,
  /** How long a closing server waits for the answers that are under way. */
  drainMsMax: 10_000,
  /** How long the handlers of stopped requests may take to note what was used. */
  drainStopMsMax: 2_000,
  /** When to come back to a service that stops: another one is there by then, or this one again. */
  drainRetryMs: 2_000,
  /** A stream that was silent this long gets an empty-delta chunk, before proxies cut it at 60 s. */
  keepAliveMs: 15_000,

  /** Figures that cost a look at the disk are this old at most. */
  figuresAgeMs: 10_000,

  // Chat
  messagesMax: 4096,
  contentPartsMax: 1024,
  choicesMax: 5,
  stopCountMax: 5,
  stopBytesMax: 32,
  temperatureMax: 1,
  /** Below this "very close to 0" the answer is deterministic and `n` must be 1. */
  temperatureGreedyMax: 0.01,
  penaltyMax: 2,
  toolsMax: 128,
  /** UTF-16 units of all tools of a request, as JSON. */
  toolsLengthMax: 256 * KIB,
  toolNameLengthMax: 64,
  schemaDepthMax: 32,
  /** UTF-16 units of one JSON schema of a tool or a response format. */
  schemaLengthMax: 64 * KIB,
  logprobsTopMax: 20,
  cacheSaltLengthMax: 128,
  maxTokensDefault: 1024,

  // Context caches
  cacheTtlSMax: 3600,
  cacheTtlSDefault: 3600,
  cacheTokensMax: 131_072,
  /** Expired and failed caches keep their record this long. */
  cacheKeepMs: 24 * 60 * 60_000,
  cacheNameLengthMax: 256,
  cacheDescriptionLengthMax: 512,
  cacheMetadataMax: 16,
  cacheMetadataKeyLengthMax: 64,
  cacheMetadataValueLengthMax: 512,
  /** Each owner's; settings may move them. */
  cachesPerOwnerMax: 20_000,
  /** Messages and tools of all caches of one owner, as stored. */
  cacheBytesPerOwnerMax: 1024 * MIB,
  /** Tags that move with one creation. */
  cacheTagsMax: 32,
  tagNameLengthMax: 128,
  cacheIdLength: 20,
  cacheSweepMs: 1_000,
  /** A snapshot whose bytes could not be freed is tried again after this long. */
  cacheForgetRetryMs: 60_000,
  /** Prefills that run at the same time; the others wait. One more while a single owner has all of these. */
  prefillsRunningMax: 2,
  /** Prefills that may wait, of all and of one owner; a further creation is `overloaded`. */
  prefillsWaitingMax: 1_000,
  prefillsWaitingOwnerMax: 500,
  /** How long one may take, beside chats on a slow machine: this, and so much more for each token. */
  prefillMsMin: 10 * 60_000,
  prefillMsPerToken: 100,
  /** Who was told to stop gets this long before others take his place. */
  prefillStopMsMax: 10_000,
  /** A prefill whose engine ended under it is begun this often; it may be what the engine ends of. */
  prefillAttemptsMax: 3,
  /** Between two attempts, doubled up to the second. */
  prefillRetryMs: 500,
  prefillRetryMsMax: 10_000,
  pageLengthMax: 100,
  pageLengthDefault: 20,
  /** Messages and tools of one page of caches; a page ends early, but never before its first cache. */
  pageBytesMax: 16 * MIB,

  // Token counting
  /** A piece of text longer than this (UTF-16 units) goes to the encoder that is not quadratic. */
  pieceLengthMax: 256,
  /** Text without a safe place to cut, handed to the WASM encoder in one call (UTF-16 units). */
  encodeChunkLengthMax: 64 * KIB,
  tokenMemoryBytesMax: 64 * MIB,
  tokenizeQueueMax: 1024,
  /** A long text holds its thread this long, then short ones have their turn. */
  encodeStepMs: 20,
  /** Tasks a thread may have begun; the long ones among them are fewer, so that short ones get in. */
  encodeTasksPerThread: 8,
  encodeLongTasksMax: 2,
  /** A thread is ended that goes on with one step for this long, or has more on its JavaScript heap. */
  encodeStuckMsMax: 30_000,
  encodeHeapBytesMax: 1024 * MIB,
  /** UTF-16 units of all long texts that wait or run; one more is `overloaded`. */
  encodeLongLengthMax: 64 * MIB,
  /** Texts of different requests that are encoded in one task; larger ones (UTF-16 units) go alone, beside each other. */
  encodeTaskTextsMax: 256,
  encodeTaskLengthMax: 16 * KIB,
  /** Orders of roles of which is remembered what a template writes around the contents. */
  promptShapesMax: 512,
  /** A longer conversation is rendered by the template each time. */
  promptShapeMessagesMax: 128,

  // Files
  /** Each user's; settings may lower them. */
  filesPerOwnerMax: 1_000,
  fileBytesMax: 100 * MIB,
  fileBytesPerOwnerMax: 10 * 1024 * MIB,
  filenameBytesMax: 4 * KIB,
  fileIdLength: 20,
  /** What a form may have beside its file: boundaries, headers of its parts, other fields. */
  uploadFormBytesMax: 64 * KIB,
  uploadPartsMax: 64,
  /** Of a form's field; what is longer is cut, and so cannot be what is allowed. */
  uploadFieldBytesMax: KIB,
  /** The form's Content-Type: a boundary has at most 70 characters. */
  uploadTypeLengthMax: 256,
  /** Uploads under way, of all and of one owner; one more is `overloaded`. */
  uploadsRunningMax: 256,
  uploadsRunningOwnerMax: 64,
  /** When to come back while uploads or extractions take all places. */
  uploadRetryMs: 1_000,
  /** Gathered for one write to the disk. */
  uploadWriteBytes: 256 * KIB,
  /** Files that are compared with one that may have the same bytes. */
  contentComparedMax: 16,
  /** A text waits this long for its extraction, which may stand in a queue: less than the ten minutes of both SDKs. */
  contentWaitMsMax: 9 * 60_000,
  /** Of an extracted text, read and sent at once. */
  contentReadBytes: 256 * KIB,

  ...extractionLimits,

  // Chats that wait for one model
  inferQueueMax: 2_048,
  /** Tokens to evaluate and to generate, of all. It bounds their prompts' memory, too. */
  queueWorkMax: 8 * 1024 * 1024,
  /** Part of both that one owner may have. */
  queueOwnerShareMax: 0.5,
  /** Bounds of the guess when there will be room. */
  queueRetryMsMin: 1_000,
  queueRetryMsMax: 10 * 60_000,

  /** Streams of all models of an engine process; the models' own places are fewer. */
  engineStreamsMax: 4_096,
  /** Pieces one generation may run ahead of its reader. */
  creditPieces: 32,
  frameBytesMax: 32 * MIB,
  /** Messages of one turn share a frame up to this size. */
  frameBytesUsual: MIB,
  /** How often an inference process is asked for an answer, and how often in vain before it is ended. */
  hostPingMs: 5_000,
  hostPingsMax: 6,
  hostRestartDelayMs: 100,
  /** From the closing of its pipe to its end. */
  hostLeaveMsMax: 2_000,
  /** An inference process that is open for so long gets another that stands by. */
  hostStandByDelayMs: 2_000,
  hostRestartDelayMsMax: 5_000,

  // Local engine
  /** Generations that may wait for a sequence; one more is `overloaded`. */
  engineQueueMax: 256,
  /** Tokens a choice may be ahead of what its reader has taken. */
  runAheadTokens: 4,
  /** A chunk is the time to a cancel, and the gap a prefill makes in the streams beside it. */
  prefillChunkTokens: 64,
  /** Part of the time a prefill may take while others stream. */
  prefillShareMax: 0.3,
  /** A piece of a snapshot that is hashed at once. */
  snapshotHashBytes: MIB,
  /** Pieces hashed at the same time; the addon evaluates on the same four threads. */
  snapshotHashParallel: 2,
  /** Snapshots whose headers are read at the same time at start. */
  snapshotOpenFilesMax: 16,
  /** A shorter common prefix is not worth copying from another sequence. */
  prefixCopyTokensMin: 32,
  /** Windows above this get one sequence. */
  sharedWindowTokensMax: 16_384,
  grammarRulesMax: 16_384,
  grammarLengthMax: 256 * KIB,
  /** Longest `maxLength` and `maxItems` a grammar can count. */
  grammarRepeatMax: 65_536,
  /** Ways to read the same text that a grammar may have to follow at once. */
  grammarWaysMax: 256,

  ...upstreamLimits,

  /** Of lines that nobody reads; more are lost, and counted. */
  logBufferBytesMax: 4 * MIB,

  // Actors
  mailboxLengthMax: 1024,
  actorIdleMs: 60_000,
  actorsActiveMax: 10_000,
  accountConcurrencyDefault: 1024,
  /** What a limit of an account may be set to: requests, tokens. */
  accountCountMax: 1_000_000,
  accountTokensMax: 10 ** 14,
  /** Models that are named as open to an account. */
  accountModelsMax: 1_000,
  /** A body of the admin API. */
  adminBodyBytesMax: 256 * KIB,
  adminKeyLengthMin: 16,
  /** Newest tags of a user that are looked through for those of its caches. */
  adminTagsMax: 1_000,
  /** Tokens of all live caches of one account. */
  accountCachedTokensDefault: 1_048_576,

  /** State that may be lost in a crash is on its way to the disk after this long. */
  actorSaveMs: 1_000,
  /** When to come back after too many requests at once: a guess by how long places are held, within these. */
  concurrencyRetryMs: 1_000,
  concurrencyRetryMsMax: 60_000,
  /** Days of usage an account record keeps. */
  usageDaysMax: 62,
  ...reviewLimits,

  /** Between two looks at a user who is moved: nothing of his may change. */
  moveQuietMs: 2_000,
  moveWaitMsMax: 60_000,

  // Quotas
  /** Owners whose sums are in memory; others are counted again when they come back. */
  quotaOwnersMax: 10_000,
  /** An owner who deletes while he is counted is counted again this often. */
  quotaCountsMax: 3,

  // Keys
  keyBytesMax: 512,
  ownerLengthMax: 64,
  /** Bearer values whose hash is remembered. */
  keyMemoryMax: 10_000,
  keysMax: 100_000,

  ...weightsLimits,

  // Store
  /** Encoded. LMDB takes 1 978 with pages of 4 KiB; one byte is kept for the ends of ranges. */
  storeKeyBytesMax: 1_977,
  storePageMax: 1_000,
  /** Addresses for the database from its start, and what its records may take: free pages lie between them. */
  storeMapBytes: 128 * 1_024 * MIB,
  recordsBytesMax: 96 * 1_024 * MIB,
  storeChangesMax: 256,
  /** When to come back after the disk did not take a write. */
  storeRetryMs: 5_000,
  /** A backup begins its records anew this often, when files were deleted under it. */
  backupAttemptsMax: 10,
  /** Nesting of a value that is hashed or stored: a body's depth and what a record puts around it. */
  recordDepthMax: 128,
} as const;

export const modelWindows = { '8k': 8_192, '32k': 32_768, '128k': 131_072 } as const;
export type Limits = typeof limits;
