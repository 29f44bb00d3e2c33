/**
 * Owns a small spreadsheet with a large text: one long string that many cells show.
 * It must stay within every bound of an archive, so that only the length of its text is left to refuse it for.
 */
import { officePackage, relation } from './zip.js';

const STRING_LENGTH = 32_000;

/** @param mark makes the bytes of one differ from those of another. */
export function bigSheet(textBytes: number, mark = 0): Buffer {
  const rows = Array.from(
    { length: Math.ceil(textBytes / STRING_LENGTH) },
    (_, i) => `<row r="${i + 1}"><c r="A${i + 1}" t="s"><v>0</v></c></row>`,
  );
  const text = `mark ${mark} ${'word '.repeat(STRING_LENGTH / 5)}`.slice(0, STRING_LENGTH);
  return officePackage(
    'spreadsheetml.sheet',
    '<workbook><sheets><sheet name="S" r:id="s"/></sheets></workbook>',
    [relation('s', 'worksheet', 's.xml'), relation('t', 'sharedStrings', 't.xml')],
    [
      { name: 's.xml', bytes: `<worksheet><sheetData>${rows.join('')}</sheetData></worksheet>` },
      { name: 't.xml', bytes: `<sst><si><t>${text}</t></si></sst>` },
    ],
  );
}
