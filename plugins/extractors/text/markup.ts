/**
 * Owns the formats that are text only for programs: documents of word processors and mail programs as marked-up text.
 * It must never take prose about a format for the format.
 */

const HEAD_BYTES = 4096;

const formats: readonly (readonly [head: RegExp, reason: string])[] = [
  [/^\s*\{\\rtf\d?[\\\s{]/, 'it is a document in Rich Text Format: save it as docx'],
  [
    /^\s*<\?xml[^>]*>\s*(?:<\?mso-application progid="Word\.Document"\?>|<(?:\w+:)?wordDocument[\s>])/,
    'it is a document in the XML format of Word 2003: save it as docx',
  ],
  [
    /^\s*<\?xml[^>]*>\s*(?:<\?mso-application progid="Excel\.Sheet"\?>|<(?:\w+:)?Workbook[\s>])/,
    'it is a workbook in the XML format of Excel 2003: save it as xlsx',
  ],
  [
    /^(?:[\w-]+:[^\n]*\n(?:[ \t][^\n]*\n)*){0,20}Content-Type:\s*multipart\/related\b/i,
    'it is a web archive (MHTML): save it as html or PDF',
  ],
];

/** Why bytes that can be shown as text are no text; null for all others. */
export function markupReason(bytes: Uint8Array): string | null {
  const head = Buffer.from(bytes.subarray(0, HEAD_BYTES))
    .toString('latin1')
    .replace(/^\xef\xbb\xbf/, '')
    .replace(/\r\n?/g, '\n');
  return formats.find(([pattern]) => pattern.test(head))?.[1] ?? null;
}
