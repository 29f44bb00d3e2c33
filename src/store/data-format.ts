/**
 * Owns the number of the form in which the records are written, and the refusal of data of a newer form.
 * It must never write: whoever opens a file of the right form notes the number.
 */

/** Grows when an older program could not read the records any more. */
export const DATA_FORMAT = 1;

/** Byte 0 is below every key of ours. */
export const FORMAT_RECORD = Buffer.of(0x00, 0x02);

export function formatValue(): Buffer {
  return Buffer.from(String(DATA_FORMAT));
}

/** @throws Error that says what to do. Data without a number is of the first form. */
export function assertReadable(folder: string, value: Uint8Array | undefined): void {
  if (value === undefined) return;
  const format = Number(Buffer.from(value).toString('utf8'));
  if (Number.isInteger(format) && format <= DATA_FORMAT) return;
  throw new Error(
    `the data folder ${folder} was written by a newer version of preface (data format ${Buffer.from(value).toString('utf8').slice(0, 20)}, this version reads up to ${DATA_FORMAT}): start that version, or set another data folder; nothing was changed`,
  );
}
