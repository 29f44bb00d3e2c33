/**
 * Owns the bounds of reading documents: of one document, of the queue, and of the processes that read.
 * It must be used through `limits` alone, where its relations are asserted.
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
  /** Of one text as it is kept: so much for any file, so much more for each byte of it, and no more than the last. */
  extractionTextBytesMin: 8 * MIB,
  extractionTextRatioMax: 32,
  extractionTextBytesMax: 256 * MIB,
  extractionUnpackedBytesMax: 200 * MIB,
  extractionUnpackRatioMax: 100,
  extractionEntriesMax: 10_000,
  extractionNestingMax: 256,
  /** Documents that wait or are being read, of all owners and of one; an upload beyond is `overloaded`. */
  extractionQueueMax: 1_000,
  extractionQueueOwnerMax: 100,
  /** Delay before an extraction without room or disk is retried, doubled up to the second bound. */
  extractionRetryMs: 500,
  extractionRetryMsMax: 30_000,
  /** Attempts to read a document; after this many crashes of the reader it is refused. */
  extractionAttemptsMax: 5,
  /** A document that is read for this long no longer keeps another from beginning on the core left to chats. */
  extractionLongMs: 3_000,
  /** A reading process goes on with its owner's documents for this long before another owner's turn: that one needs a new process. */
  extractionTurnMs: 1_000,
  /** An idle reading process ends after this long. */
  extractionIdleMs: 60_000,
  /** A reading process that has not opened its plugins after this long counts as broken. */
  extractionStartMsMax: 60_000,
  /** How often the memory of a reading process is checked. */
  extractionMemoryPollMs: 50,
  /** A reading process that keeps more than this after a document ends, so that the next document has the whole bound. */
  extractionMemoryKeptBytesMax: 512 * MIB,
  /** UTF-16 units of the reason why a document is refused. */
  extractionReasonLengthMax: 500,
  /** Of what an extractor broke on, for the log. */
  extractionFaultLengthMax: 2_000,
  /** UTF-16 units of text that leave a reader, and are escaped and written, at once. */
  extractionPieceLength: MIB / 4,
  /** Pieces that a reader may be ahead of the disk. */
  extractionPiecesAheadMax: 16,
  /** Kept beside the text: lines of a page whose places are told, names of what was not read, the length of it as JSON, and bytes of a document. */
  extractionPageLinesMax: 4_000,
  extractionPageSkippedMax: 64,
  extractionNotesLineLengthMax: MIB / 2,
  extractionNotesBytesMax: 32 * MIB,
  /** Letters of a media type. */
  extractionTypeLengthMax: 128,
  /** What the system lets a reader have: files and pipes open at once, bytes of a file it writes, memory beyond its own count. */
  extractionOpenFilesMax: 256,
  extractionScratchBytesMax: 64 * MIB,
  extractionMemorySlackBytes: 1024 * MIB,
  /** Of one picture that goes to a program of the machine: pixels, and pixels of a side. */
  recognitionPixelsMax: 16 * MIB,
  recognitionSideMax: 32_000,
  /** What that program may take for it: time, memory, bytes of its answer. */
  recognitionMsMax: 45_000,
  recognitionMemoryBytesMax: 1024 * MIB,
  recognitionOutputBytesMax: 8 * MIB,
  /** At the start it is asked what it is, and tried with an empty picture. */
  recognitionTrialMsMax: 20_000,
  /** How long it waits with its models in memory for its owner's next document. */
  recognitionIdleMsMax: 20_000,
} as const;
