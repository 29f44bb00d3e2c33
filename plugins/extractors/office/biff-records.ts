/**
 * Owns the records of a workbook of Excel before 2007: where each lies in its stream.
 * It must never keep them: a stream may hold millions.
 */

export interface BiffRecord {
  readonly type: number;
  /** Of its body. */
  readonly from: number;
  readonly to: number;
}

const HEADER_BYTES = 4;

/** One after the other; the body of the last may be cut off. */
export function* biffRecords(stream: Buffer): Generator<BiffRecord> {
  for (let at = 0; at + HEADER_BYTES <= stream.length; ) {
    const type = stream.readUInt16LE(at);
    const from = at + HEADER_BYTES;
    const to = Math.min(stream.length, from + stream.readUInt16LE(at + 2));
    yield { type, from, to };
    at = to;
  }
}
