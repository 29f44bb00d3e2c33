/**
 * Owns the encoding that a text declares of itself, in the forms that XML, HTML, CSS and source code have for it.
 * It must never decide that the declaration is right.
 */

/** Pages often put styles and scripts before the element that names their encoding. */
const HEAD_BYTES = 64 * 1024;
const FIRST_LINES_LENGTH = 400;

/** `<?xml version="1.0" encoding="koi8-r"?>` */
const XML = /^[^<]{0,16}<\?xml[^>]{0,200}?\bencoding\s*=\s*["']([\w.:-]{1,40})/;
/** `<meta charset="koi8-r">`, or the same within a content type. */
const META = /<meta\s[^>]{0,400}?\bcharset\s*=\s*["']?\s*([\w.:-]{1,40})/i;
/** `@charset "koi8-r";` */
const CSS = /^@charset "([\w.:-]{1,40})";/;
/** `# -*- coding: koi8-r -*-`, of editors and Python: in the first two lines. */
const COOKIE = /^(?:[^\n]{0,200}\n)?[^\n]{0,100}?\bcoding[:=][ \t]*([\w.-]{1,40})/;

/** @returns a label as it stands, or null. */
export function declaredInXml(bytes: Uint8Array): string | null {
  return XML.exec(latin(bytes, FIRST_LINES_LENGTH))?.[1] ?? null;
}

export function declaredInHtml(bytes: Uint8Array): string | null {
  return META.exec(latin(bytes, HEAD_BYTES))?.[1] ?? declaredInXml(bytes);
}

/** Of text that may be of any kind. */
export function declaredInText(bytes: Uint8Array): string | null {
  const head = latin(bytes, FIRST_LINES_LENGTH);
  return (XML.exec(head) ?? CSS.exec(head) ?? COOKIE.exec(head))?.[1] ?? null;
}

function latin(bytes: Uint8Array, length: number): string {
  return Buffer.from(bytes.subarray(0, length)).toString('latin1');
}
