/**
 * Owns the names of formats that nothing reads, by their first bytes, so that a refusal says what it was given.
 * It must never be asked before the extractors.
 */

/** Magic bytes as Latin-1, and where they stand. */
const formats: readonly (readonly [magic: string, at: number, name: string])[] = [
  ['PK\x03\x04', 0, 'a ZIP archive'],
  ['Rar!\x1a\x07', 0, 'a RAR archive'],
  ['7z\xbc\xaf\x27\x1c', 0, 'a 7z archive'],
  ['\x1f\x8b', 0, 'packed by gzip'],
  ['BZh', 0, 'packed by bzip2'],
  ['\xfd7zXZ\0', 0, 'packed by xz'],
  ['\x28\xb5\x2f\xfd', 0, 'packed by Zstandard'],
  ['ustar', 257, 'a tar archive'],
  [
    '\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1',
    0,
    'an OLE container of a program such as Visio, Publisher or Project',
  ],
  ['!BDN', 0, 'a mailbox of Outlook'],
  ['\0\x01\0\0Standard', 0, 'a database of Access'],
  ['SQLite format 3', 0, 'a database of SQLite'],
  ['AT&TFORM', 0, 'a DjVu document'],
  ['8BPS', 0, 'a picture of Photoshop'],
  ['\xd7\xcd\xc6\x9a', 0, 'a Windows metafile'],
  [' EMF', 40, 'a Windows metafile'],
  ['\0\0\0\x0cJXL ', 0, 'a picture in JPEG XL'],
  ['\0\0\0\x0cjP  ', 0, 'a picture in JPEG 2000'],
  ['ftyp', 4, 'a film or a sound'],
  ['\x1a\x45\xdf\xa3', 0, 'a film'],
  ['ID3', 0, 'a sound'],
  ['OggS', 0, 'a sound'],
  ['fLaC', 0, 'a sound'],
  ['WAVE', 8, 'a sound'],
  ['AVI ', 8, 'a film'],
  ['wOFF', 0, 'a font'],
  ['wOF2', 0, 'a font'],
  ['OTTO', 0, 'a font'],
  ['\x7fELF', 0, 'a program'],
  ['MZ', 0, 'a program'],
  ['\xca\xfe\xba\xbe', 0, 'a program'],
];
const HEAD_BYTES = 512;

/** Null where nobody knows it. */
export function formatNameOf(bytes: Uint8Array): string | null {
  const head = Buffer.from(bytes.subarray(0, HEAD_BYTES)).toString('latin1');
  return formats.find(([magic, at]) => head.startsWith(magic, at))?.[2] ?? null;
}
