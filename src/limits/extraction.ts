/**
 * Owns the bounds of reading documents: of one document, of those that wait, of the processes that read.
 * It must never be imported but by the limits it is part of.
 */

const MIB = 1024 * 1024;

export const extractionLimits = {
  extractionMsMax: 5 * 60_000,
  /** Of one page, or of what comes before the first one. */
  extractionPageMsMax: 2 * 60_000,
  /** Resident, of the process that reads one document. */
  extractionMemoryBytesMax: 1536 * MIB,
  extractionPagesMax: 5_000,
  extractionPixelsMax: 64 * MIB,
  extractionTextLengthMax: 128 * MIB,
  extractionUnpackedBytesMax: 200 * MIB,
  extractionUnpackRatioMax: 100,
  extractionEntriesMax: 10_000,
  extractionNestingMax: 256,
  /** Documents that wait or are read, of all and of one owner; an upload beyond is `overloaded`. */
  extractionQueueMax: 1_000,
  extractionQueueOwnerMax: 100,
  /** An extraction that found no room, or no disk, is tried again after this long, doubled up to the second. */
  extractionRetryMs: 500,
  extractionRetryMsMax: 30_000,
  /** Times that a reader may break without a verdict on the document; then that is the verdict. */
  extractionAttemptsMax: 5,
  /** A process that reads documents and has none ends after this long. */
  extractionIdleMs: 60_000,
  /** A process that reads documents and has not opened its plugins after this long is taken as broken. */
  extractionStartMsMax: 60_000,
  /** How often the memory of a process that reads is looked at. */
  extractionMemoryPollMs: 50,
  /** A process that holds more than this after a document ends: the next one has a right to the whole bound. */
  extractionMemoryKeptBytesMax: 512 * MIB,
  /** UTF-16 units of the reason why a document is refused. */
  extractionReasonLengthMax: 500,
  /** UTF-16 units of text that are escaped and written at once. */
  extractionWriteLength: MIB,
} as const;
