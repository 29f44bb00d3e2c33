/**
 * Owns the number of the data format, and the refusal of data in a newer format.
 * It must never write: the store writes the number when it opens a file.
 */

/** Grows with each change after which an older program cannot read the records. */
export const DATA_FORMAT = 2;

/** Byte 0 sorts below every store key. */
export const FORMAT_RECORD = Buffer.of(0x00, 0x02);

export function formatValue(): Buffer {
  return Buffer.from(String(DATA_FORMAT));
}

/** @throws Error that says what to do. Data without a number has the first format. */
export function assertReadable(folder: string, value: Uint8Array | undefined): void {
  if (value === undefined) return;
  const format = Number(Buffer.from(value).toString('utf8'));
  if (Number.isInteger(format) && format <= DATA_FORMAT) return;
  throw new Error(
    `the data folder ${folder} was written by a newer version of preface (data format ${Buffer.from(value).toString('utf8').slice(0, 20)}, this version reads up to ${DATA_FORMAT}): start that version, or set another data folder; nothing was changed`,
  );
}
