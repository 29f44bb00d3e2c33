/**
 * Owns every message that crosses a thread or a process, as discriminated unions of plain data.
 * It must never declare anything but plain data and the ports that carry it. Every message that crosses is declared here.
 */
import type { MessagePort } from 'node:worker_threads';
import type { ErrorValue } from '../errors.js';
import type {
  DocumentPage,
  EngineEvent,
  EngineModel,
  EngineOptions,
  ExtractorOptions,
  GenerateTask,
  PictureToRead,
  PrefillTask,
  RefusedModel,
  RemoteVocabulary,
  TokenizerInfo,
  VectorTask,
  WarmReport,
} from '../plugin/contract.js';
import type { ImageMarks } from './large-images.js';
import type { TierAnswer, TierAsk } from './tier-link.js';

/** A plugin module, by path or package name, and what it is opened with. */
export interface PluginRef<Options> {
  readonly module: string;
  readonly options: Options;
}

// ------------------------------------------------- tokenization pool: one task, one value

export interface TokenizerRef {
  readonly module: string;
  readonly path: string | null;
  readonly remote?: RemoteVocabulary;
}

/** A long text as bytes, beside others in one memory: quick to move, and to copy. */
export interface PackedText {
  readonly memory: ArrayBuffer;
  readonly byteOffset: number;
  /** UTF-16 units. */
  readonly length: number;
  /** Two bytes a unit; else one, of Latin-1. */
  readonly isWide: boolean;
  /** SHA-256 of the text, in base64. */
  readonly digest: string;
}

export type TokenizeTask =
  | { readonly type: 'info'; readonly tokenizer: TokenizerRef }
  | {
      readonly type: 'encode';
      readonly tokenizer: TokenizerRef;
      readonly texts: readonly (string | PackedText)[];
      /** Of more ids, only their number is answered. Absent: all are. */
      readonly idsMax?: number;
    };

export type TokenizeResult =
  | {
      readonly type: 'info';
      readonly info: TokenizerInfo;
      /** See `TokenizerPlugin.isQuick`. */
      readonly isQuick: boolean;
    }
  /** Ids of all texts, one text after the other, and the number of ids of each; null: more than were asked for. */
  | {
      readonly type: 'encoded';
      readonly ids: Uint32Array | null;
      readonly lengths: Uint32Array;
    }
  | { readonly type: 'error'; readonly error: ErrorValue };

// ------------------------------------------------- inference pool: many streams over one transport

/** The work of a stream. Every kind but the first two gives a few events and ends. */
export type EngineWork =
  | { readonly type: 'generate'; readonly task: GenerateTask }
  | { readonly type: 'vectors'; readonly task: VectorTask }
  | { readonly type: 'prefill'; readonly task: PrefillTask }
  | { readonly type: 'holds'; readonly task: PrefillTask }
  | { readonly type: 'forget'; readonly snapshot: string }
  | { readonly type: 'load' | 'unload'; readonly model: string };

export type ToEngine =
  | {
      readonly type: 'start';
      readonly stream: number;
      readonly work: EngineWork;
      /** Marks of them stand in the work; their bytes came before. */
      readonly images?: ImageMarks;
    }
  /** A piece of the images of a stream that begins next, the last one first. */
  | { readonly type: 'bytes'; readonly stream: number; readonly bytes: Uint8Array }
  /** The reader can receive this many more pieces. */
  | { readonly type: 'credit'; readonly stream: number; readonly pieces: number }
  /** `choice` null ends the whole stream; only `end` follows. */
  | { readonly type: 'cancel'; readonly stream: number; readonly choice: number | null }
  /** The thread that runs the engine answers it at its next chance. */
  | { readonly type: 'ping' }
  | { readonly type: 'tier'; readonly answer: TierAnswer };

export type FromEngine =
  | {
      readonly type: 'ready';
      readonly models: readonly EngineModel[];
      readonly refused: readonly RefusedModel[];
    }
  /** What the engine says of its models has changed. */
  | { readonly type: 'models'; readonly models: readonly EngineModel[] }
  /** What the engine took into memory before anybody asked for it. */
  | { readonly type: 'warm'; readonly report: WarmReport }
  /** The engine could not be opened; nothing follows. */
  | { readonly type: 'failed'; readonly error: ErrorValue }
  /** The events of one stream within one turn of the event loop, in order. */
  | { readonly type: 'events'; readonly stream: number; readonly events: EngineEvent[] }
  | { readonly type: 'end'; readonly stream: number }
  | { readonly type: 'error'; readonly stream: number; readonly error: ErrorValue }
  /** See `Engine.tier`. */
  | { readonly type: 'tier'; readonly ask: TierAsk }
  /** In a process: the engine runs no native code, so that a thread will do. Nothing follows. */
  | { readonly type: 'movable' }
  /** `reachable`: see `Engine.reachable`. */
  | { readonly type: 'pong'; readonly reachable: boolean };

export type EngineRef = PluginRef<EngineOptions>;

/**
 * The tasks of an inference worker: prepare what takes long, then open the engine and serve its streams until the other
 * side is gone. Work, credit and cancel of all streams come to the worker in order, over one transport: a task for each
 * stream would cost more than the whole work of the echo engine.
 */
export type InferTask =
  | { readonly type: 'prepare'; readonly engine: EngineRef }
  | {
      readonly type: 'serve';
      readonly engine: EngineRef;
      /** The file descriptor of a pipe to the parent process; or a port, within one process. */
      readonly asker: number | MessagePort;
      /** Whether the engine is warm before it is ready: see `Engine.warm`. */
      readonly warmFirst: boolean;
      readonly place: EnginePlace;
    };

/**
 * Where an engine runs. In a `thread` of the main process only one without native code is opened; a process that may be
 * `either` says `movable` where its engine is such a one, and ends.
 */
export type EnginePlace = 'process' | 'thread' | 'either';

/** The options of an engine's thread. */
export interface ThreadStart {
  readonly engine: EngineRef;
  readonly asker: MessagePort;
}

export interface HostStart {
  readonly engine: EngineRef;
}

/** The options of a host process: a line of JSON on its standard input. */
export interface HostLine extends HostStart {
  /** How often it tells that it lives. */
  readonly beatMs: number;
  readonly place: EnginePlace;
}

/** The next line tells the process to open its engine: until then it stands by. */
export interface HostOpen {
  readonly warmFirst: boolean;
}

// ------------------------------------------------- extraction pool: one document, one value

/** The options of a process that reads documents, as JSON in its first argument. */
export interface ReaderStart {
  readonly extractors: readonly PluginRef<ExtractorOptions>[];
  /** Resident size of the process. */
  readonly memoryBytesMax: number;
  /** Whether it may ask for the text of pictures. */
  readonly asksForPictures: boolean;
}

/** Tasks of an extraction worker. `open` opens the extractors, once; each `read` reads one document. */
export type ReaderTask =
  /** The port carries `PictureToRead`, each answered by a `PictureAnswer`; null: no picture may be asked for. */
  | {
      readonly type: 'open';
      readonly extractors: ReaderStart['extractors'];
      readonly pictures: MessagePort | null;
    }
  /** The port says each piece of text as a frame of `FromReader`, packed for the parent, and is told how many more were taken. */
  | {
      readonly type: 'read';
      readonly bytes: Uint8Array;
      readonly filename: string;
      readonly port: MessagePort;
    };

export type ReaderResult =
  | { readonly type: 'opened' }
  | {
      readonly type: 'read';
      readonly result: ReadResult;
      /** The internal cause of a failure, for the log; null where the extractor worked as it should. */
      readonly fault: string | null;
    }
  /** A fault of the machine or of the installation, never of the document. */
  | { readonly type: 'failed'; readonly error: ErrorValue };

/** Part of the text of a page; pages follow one another. */
export interface TextPiece {
  readonly text: string;
  /** Null in the middle of a page; at its end the pages of the document, as far as they are known, and what goes with its text. */
  readonly end: { readonly pages: number | null; readonly notes: PageNotes | null } | null;
}

/** What is kept of a page beside its text. */
export type PageNotes = Pick<DocumentPage, 'recognized' | 'skipped' | 'layout'>;

export type ToReader =
  /** So many bytes follow on standard input. */
  | { readonly type: 'read'; readonly filename: string; readonly bytes: number }
  /** So many more pieces of text are on their way to the disk. */
  | { readonly type: 'taken'; readonly pieces: number }
  | { readonly type: 'recognized'; readonly answer: PictureAnswer };

/** What the program of the machine wrote of a picture, as it came; null where it failed. */
export type PictureAnswer = Uint8Array | null;

/** What a reader says is read by `reader-messages.ts`: who has broken out of a document may say anything. */
export type FromReader =
  | { readonly type: 'ready' }
  | { readonly type: 'text'; readonly piece: TextPiece }
  /** One at a time: the next after its answer. */
  | { readonly type: 'picture'; readonly picture: PictureToRead }
  /** It exceeds its memory bound and must be ended. */
  | { readonly type: 'memory' }
  | {
      readonly type: 'end';
      readonly result: ReaderResult;
      /** Resident size afterwards. */
      readonly memoryBytes: number;
    };

/** As the reader tells it; how many pages there are is counted on this side. */
export type ReadResult =
  | {
      readonly type: 'extracted';
      readonly fileType: string;
      readonly title: string;
      /** What was read how, and what was left out; empty for nothing to tell. */
      readonly details: string;
    }
  | Refusal;

export interface Refusal {
  readonly type: 'refused';
  readonly reason: string;
  /** What it was taken for; null where nobody could say any more. */
  readonly fileType: string | null;
}

export interface ExtractedDocument {
  readonly fileType: string;
  readonly title: string;
  readonly details: string;
  readonly pages: number;
  /** Bytes of the file that was written. */
  readonly bytes: number;
  /** Of the file with the notes of its pages; absent where there is nothing to note. */
  readonly notes?: { readonly bytes: number; readonly crc32: number };
}

export type ExtractResult =
  | { readonly type: 'extracted'; readonly document: ExtractedDocument }
  /** A fault of the document: the same bytes fail again. */
  | Refusal;

export interface ExtractProgress {
  readonly page: number;
  /** Null while it is unknown. */
  readonly pages: number | null;
}
