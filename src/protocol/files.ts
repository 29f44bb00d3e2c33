/**
 * Owns the wire shapes of files: the upload's fields, the file object, its list, its content.
 * It must never know how a file came, where it lies, or who extracts it.
 */
import { ApiError, invalid } from '../errors.js';
import { limits } from '../limits/index.js';
import { quoted, shown } from './field.js';
import { type PageQuery, parsePageQuery } from './page-query.js';
import { type Static, Type } from './schema.js';

const PURPOSE = 'file-extract';

export const fileUploadSchema = Type.Object({
  file: Type.Unsafe<string>({
    type: 'string',
    contentMediaType: 'application/octet-stream',
    minLength: 1,
    description: `The file, with its name. 1 to ${limits.fileBytesMax} bytes.`,
  }),
  purpose: Type.Literal(PURPOSE),
});

export const fileSchema = Type.Object({
  id: Type.String(),
  object: Type.Literal('file'),
  bytes: Type.Integer({ minimum: 1 }),
  created_at: Type.Integer({ description: 'Unix seconds.' }),
  filename: Type.String({ description: 'As it was sent, without folders.' }),
  purpose: Type.Literal(PURPOSE),
  status: Type.Enum(['ok', 'error'], {
    description: '`ok` also while the text is being extracted; `error` when it cannot be.',
  }),
  status_details: Type.String({ description: 'With `error` the reason, else empty.' }),
});

const orNull = { anyOf: [{ type: 'string' }, { type: 'null' }] };

export const fileListSchema = Type.Object({
  object: Type.Literal('list'),
  data: Type.Array(fileSchema),
  has_more: Type.Boolean(),
  first_id: Type.Unsafe<string | null>(orNull),
  last_id: Type.Unsafe<string | null>(orNull),
});

export const fileDeletedSchema = Type.Object({
  id: Type.String(),
  object: Type.Literal('file'),
  deleted: Type.Literal(true),
});

export type WireFile = Static<typeof fileSchema>;

/** What a client sees of a file. */
export interface FileShown {
  readonly id: string;
  readonly bytes: number;
  readonly createdS: number;
  readonly filename: string;
  /** null: no fault is known. */
  readonly failure: string | null;
}

export function file({ id, bytes, createdS, filename, failure }: FileShown): WireFile {
  return {
    id,
    object: 'file',
    bytes,
    created_at: createdS,
    filename,
    purpose: PURPOSE,
    status: failure === null ? 'ok' : 'error',
    status_details: failure ?? '',
  };
}

export function fileList(
  files: readonly FileShown[],
  hasMore: boolean,
): Static<typeof fileListSchema> {
  return {
    object: 'list',
    data: files.map(file),
    has_more: hasMore,
    first_id: files[0]?.id ?? null,
    last_id: files.at(-1)?.id ?? null,
  };
}

export function fileDeleted(id: string): Static<typeof fileDeletedSchema> {
  return { id, object: 'file', deleted: true };
}

/** The JSON before and after the text. The text is a JSON string already, and may be too long for memory. */
export function contentFrame(content: {
  readonly fileType: string;
  readonly filename: string;
  readonly title: string;
}): { readonly head: string; readonly tail: string } {
  const { fileType, filename, title } = content;
  const rest = JSON.stringify({ file_type: fileType, filename, title, type: 'file' });
  return { head: '{"content":', tail: `,${rest.slice(1)}` };
}

export interface FileQuery extends PageQuery {
  /** False: no file can have the purpose, so the list is empty. */
  readonly purposeExists: boolean;
}

/** @param query raw, without the question mark. @throws ApiError for a value that is not allowed, or given twice. */
export function parseFileQuery(query: string): FileQuery {
  const purposes = new URLSearchParams(query).getAll('purpose');
  if (purposes.length > 1) throw invalid("'purpose' must be given once", 'purpose');
  const [purpose] = purposes;
  return {
    ...parsePageQuery(query, { metadata: false, others: ['purpose'] }),
    purposeExists: (purpose ?? PURPOSE) === PURPOSE,
  };
}

/** @throws ApiError for any purpose but `file-extract`. */
export function checkPurpose(purpose: string | null): void {
  if (purpose === null) {
    throw invalid(`purpose is required and must be '${PURPOSE}', got nothing`, 'purpose');
  }
  if (purpose !== PURPOSE) throw new ApiError('invalidPurpose', {}, { param: 'purpose' });
}

/** The last part of the name that was sent. It is data: no path is made of it. */
export function checkFilename(filename: string): string {
  const bytes = Buffer.byteLength(filename);
  if (bytes > limits.filenameBytesMax) {
    throw invalid(
      `the name of the file must have at most ${limits.filenameBytesMax} bytes, got ${bytes}: ${quoted(filename)}`,
      'file',
    );
  }
  return filename;
}

/** @param name of a part that holds a file. @throws ApiError for any name but `file`. */
export function checkFilePart(name: string | undefined, files: number): void {
  if (name !== 'file') {
    throw invalid(`the part with the file must be named 'file', got ${shown(name)}`, 'file');
  }
  if (files > 1) throw invalid('one file can be uploaded at a time, got two', 'file');
}

export function fileMissing(asField: boolean): ApiError {
  const got = asField ? 'a field without a file name' : 'nothing';
  return invalid(`file is required and must be a file, got ${got}`, 'file');
}
