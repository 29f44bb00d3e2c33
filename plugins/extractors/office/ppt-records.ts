/**
 * Owns the records of a presentation of PowerPoint 97 to 2003: a tree in one stream, and which of its records are current.
 * It must never follow a record beyond the bytes of the one that holds it.
 */
import { locked, refusal } from '../shared/refusal.js';
import type { OleContainer } from './ole.js';

export interface PptRecord {
  readonly type: number;
  readonly instance: number;
  /** Empty for a container. */
  readonly data: Buffer;
  readonly children: () => Iterable<PptRecord>;
}

/** A presentation for PowerPoint 95 and 97 keeps the newer form in this storage. */
const DUAL_STORAGE = 'PP97_DUALSTORAGE';
const HEADER_BYTES = 8;
const CONTAINER_VERSION = 0xf;
const USER_EDIT = 0x0ff5;
const PERSIST_DIRECTORY = 0x1772;
const ENCRYPTED_TOKEN = 0xf3d1c4df;
/** Each save adds one. */
const EDITS_MAX = 10_000;

export function recordAt(bytes: Buffer, at: number): PptRecord {
  const head = bytes.readUInt16LE(at);
  const end = Math.min(at + HEADER_BYTES + bytes.readUInt32LE(at + 4), bytes.length);
  const body = bytes.subarray(at + HEADER_BYTES, end);
  const isContainer = (head & 0xf) === CONTAINER_VERSION;
  return {
    type: bytes.readUInt16LE(at + 2),
    instance: head >> 4,
    data: isContainer ? body.subarray(0, 0) : body,
    children: () => (isContainer ? recordsOf(body) : []),
  };
}

/** Records one after the other; the last may be cut off. */
export function* recordsOf(bytes: Buffer): Generator<PptRecord> {
  for (let at = 0; at + HEADER_BYTES <= bytes.length; ) {
    yield recordAt(bytes, at);
    at += HEADER_BYTES + bytes.readUInt32LE(at + 4);
  }
}

export interface Presentation {
  readonly document: PptRecord;
  /** By the id that the document calls it. */
  persisted(id: number): PptRecord | null;
}

/** @throws a refusal, or a RangeError on a damaged stream. */
export function openPresentation(container: OleContainer): Presentation {
  const streamOf = (name: string) =>
    container.stream(`${DUAL_STORAGE}/${name}`) ?? container.stream(name);
  const stream = streamOf('PowerPoint Document');
  const user = streamOf('Current User');
  if (stream === null || user === null)
    throw refusal('damaged', 'it is damaged: a part is missing');
  if (user.readUInt32LE(12) === ENCRYPTED_TOKEN || container.has('EncryptedSummary'))
    throw locked();
  const { offsets, documentId } = readEdits(stream, user.readUInt32LE(16));
  const persisted = (id: number) => {
    const offset = offsets.get(id);
    return offset === undefined ? null : recordAt(stream, offset);
  };
  const document = persisted(documentId);
  if (document === null) throw refusal('damaged', 'it is damaged: its document is missing');
  return { document, persisted };
}

/** The newest save wins; records it did not change are in earlier saves. */
function readEdits(stream: Buffer, newest: number) {
  const offsets = new Map<number, number>();
  let documentId = 0;
  let at = newest;
  for (let step = 0; at !== 0 && step < EDITS_MAX; step++) {
    const edit = recordAt(stream, at);
    if (edit.type !== USER_EDIT) throw refusal('damaged', 'it is damaged: a save is missing');
    if (edit.data.length >= 32) throw locked();
    if (step === 0) documentId = edit.data.readUInt32LE(16);
    readDirectory(recordAt(stream, edit.data.readUInt32LE(12)), offsets);
    const before = edit.data.readUInt32LE(8);
    at = before < at ? before : 0;
  }
  return { offsets, documentId };
}

function readDirectory({ type, data }: PptRecord, offsets: Map<number, number>): void {
  if (type !== PERSIST_DIRECTORY) throw refusal('damaged', 'it is damaged: a directory is missing');
  for (let at = 0; at + 4 <= data.length; ) {
    const head = data.readUInt32LE(at);
    const count = head >>> 20;
    at += 4;
    for (let index = 0; index < count && at + 4 <= data.length; index++, at += 4) {
      const id = (head & 0xfffff) + index;
      if (!offsets.has(id)) offsets.set(id, data.readUInt32LE(at));
    }
  }
}
