/**
 * Owns the records of a Palm database, and the book's header in the first of them.
 * It must never read beyond the record it was asked for.
 */
import { decodeCodePage } from '../shared/decoder.js';
import { refusal } from '../shared/refusal.js';

const RECORD_LIST = 78;
const RECORD_ENTRY_BYTES = 8;
const MOBI_START = 16;
const UTF8 = 65001;
const WESTERN = 1252;
const TITLE_TAG = 503;
const ABSENT = 0xffffffff;

export type Compression = 'none' | 'palmdoc' | 'huffman';

export interface BookHeader {
  readonly compression: Compression;
  readonly encrypted: boolean;
  readonly textRecords: number;
  /** A Windows code page: 1252 or 65001. */
  readonly codePage: number;
  readonly title: string;
  /** Bit flags: which extra data follows the text in each record. */
  readonly trailing: number;
  /** First record of the tables of codes, and how many there are. */
  readonly codes: { readonly first: number; readonly count: number };
  /** Record with the boundary between text and styles, or null. */
  readonly flows: number | null;
}

/** `BOOKMOBI` or `TEXtREAd`. */
export function isBook(bytes: Uint8Array): boolean {
  const kind = Buffer.from(bytes.subarray(60, 68)).toString('latin1');
  return kind === 'BOOKMOBI' || kind === 'TEXtREAd';
}

export class PalmDatabase {
  readonly #bytes: Buffer;
  readonly count: number;

  constructor(bytes: Uint8Array) {
    this.#bytes = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.count = this.#bytes.readUInt16BE(76);
  }

  record(index: number): Buffer {
    if (index >= this.count) throw refusal('damaged', 'it is damaged: a record is missing');
    const start = this.#offset(index);
    const end = index + 1 < this.count ? this.#offset(index + 1) : this.#bytes.length;
    if (start > end || end > this.#bytes.length) {
      throw refusal('damaged', 'it is damaged or cut off: a record is missing');
    }
    return this.#bytes.subarray(start, end);
  }

  #offset(index: number): number {
    return this.#bytes.readUInt32BE(RECORD_LIST + index * RECORD_ENTRY_BYTES);
  }
}

export function readHeader(database: PalmDatabase): BookHeader {
  const record = database.record(0);
  const isMobi = record.toString('latin1', MOBI_START, MOBI_START + 4) === 'MOBI';
  const length = isMobi ? record.readUInt32BE(MOBI_START + 4) : 0;
  const field = (at: number) =>
    at + 4 <= MOBI_START + length && at + 4 <= record.length ? record.readUInt32BE(at) : null;
  const version = field(36) ?? 0;
  const codePage = field(28) === UTF8 ? UTF8 : WESTERN;
  const flows = version >= 8 ? field(192) : null;
  return {
    compression: compressionOf(record.readUInt16BE(0)),
    encrypted: record.readUInt16BE(12) !== 0,
    textRecords: record.readUInt16BE(8),
    codePage,
    title: isMobi ? titleOf(record, length, codePage) : '',
    trailing: (field(240) ?? 0) & 0xffff,
    codes: { first: field(112) ?? 0, count: field(116) ?? 0 },
    flows: flows === ABSENT ? null : flows,
  };
}

function compressionOf(code: number): Compression {
  if (code === 1) return 'none';
  if (code === 2) return 'palmdoc';
  if (code === 17480) return 'huffman';
  throw refusal('unsupported', `its compression method ${code} is not supported`);
}

function titleOf(record: Buffer, length: number, codePage: number): string {
  const decode = (bytes: Buffer) => decodeCodePage(bytes, codePage).trim();
  const extended = MOBI_START + length;
  if (record.toString('latin1', extended, extended + 4) === 'EXTH') {
    const count = record.readUInt32BE(extended + 8);
    let at = extended + 12;
    for (let index = 0; index < count && at + 8 <= record.length; index++) {
      const size = record.readUInt32BE(at + 4);
      if (record.readUInt32BE(at) === TITLE_TAG) return decode(record.subarray(at + 8, at + size));
      at += Math.max(size, 8);
    }
  }
  const start = record.readUInt32BE(84);
  return decode(record.subarray(start, start + record.readUInt32BE(88)));
}
