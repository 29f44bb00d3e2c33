/**
 * Owns the bounds that an operator may change; all others are fixed in `src/limits`.
 * It must never hold a default of its own: those are bounds of the service.
 */
import { limits } from '../limits/index.js';
import type { Fields, Values } from './fields.js';
import { byteCount, GIB, integer } from './kinds.js';

const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;

export const limitFields = {
  accountConcurrency: {
    kind: integer(1, 1_000_000),
    default: limits.accountConcurrencyDefault,
    help: 'requests that one account may have running',
  },
  inferQueue: {
    kind: integer(1, 100_000),
    default: limits.inferQueueMax,
    help: 'chats that may wait for one model',
  },
  keepAliveMs: {
    kind: integer(100, 10 * MINUTE_MS),
    default: limits.keepAliveMs,
    help: 'silence after which a stream gets an empty chunk',
  },
  filesPerOwner: {
    kind: integer(1, limits.filesPerOwnerMax),
    default: limits.filesPerOwnerMax,
    help: 'files of one user',
  },
  fileBytesPerOwner: {
    kind: integer(1, limits.fileBytesPerOwnerMax),
    default: limits.fileBytesPerOwnerMax,
    help: 'bytes of all files of one user',
  },
  drainMs: {
    kind: integer(0, 10 * MINUTE_MS),
    default: limits.drainMsMax,
    help: 'how long a service that is told to stop waits for running requests',
  },
  cachesPerOwner: {
    kind: integer(1, 10_000_000),
    default: limits.cachesPerOwnerMax,
    help: 'caches of one user',
  },
  cacheBytesPerOwner: {
    kind: byteCount(limits.bodyBytesMax, 1024 * GIB),
    default: limits.cacheBytesPerOwnerMax,
    help: 'bytes of the messages and tools of all caches of one user',
  },
  recordsBytes: {
    kind: byteCount(2 * limits.bodyBytesMax, limits.recordsBytesMax),
    default: limits.recordsBytesMax,
    help: 'size of the database: caches, tags, records of files, accounts',
  },
  cacheKeepMs: {
    kind: integer(0, 366 * DAY_MS),
    default: limits.cacheKeepMs,
    help: 'how long expired and failed caches stay',
  },
  filterMs: {
    kind: integer(1, 10 * MINUTE_MS),
    default: limits.filterMs,
    help: 'how long one filter may take for one answer',
  },
} satisfies Fields;

export type LimitSettings = Values<typeof limitFields>;
