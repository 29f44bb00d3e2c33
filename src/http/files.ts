/**
 * Owns the routes of files: `/v1/files`, `/v1/files/{id}` and its content.
 * It must never hold a file or its text in memory: both pass through in pieces.
 */
import type { FileHandle } from 'node:fs/promises';
import { ApiError } from '../errors.js';
import type { Files } from '../files/files.js';
import { fileTooLarge, type Upload } from '../files/uploads.js';
import { limits } from '../limits/index.js';
import {
  checkFilename,
  checkFilePart,
  checkPurpose,
  contentFrame,
  type FileShown,
  file,
  fileDeleted,
  fileList,
  fileMissing,
  parseFileQuery,
} from '../protocol/files.js';
import type { FileRecord } from '../rules/file-state.js';
import { ClientGoneError, type Exchange } from './exchange.js';
import type { Caller, Entrance, Gate } from './gate.js';
import { type FormTaker, type NextPiece, readForm } from './multipart.js';
import { type Route, route } from './router.js';

const UPLOAD_BYTES_MAX = limits.fileBytesMax + limits.uploadFormBytesMax;

const entrance = { api: 'files' } as const;
const uploadEntrance: Entrance = {
  ...entrance,
  bodyBytesMax: UPLOAD_BYTES_MAX,
  tooLarge: 'fileTooLarge',
};

const contentHeaders = {
  'content-type': 'text/plain; charset=utf-8',
  // A browser must show an uploaded text as text, not as a page.
  'x-content-type-options': 'nosniff',
} as const;

export function fileRoutes(gate: Gate, files: Files): Route[] {
  return [
    route(
      'POST',
      '/v1/files',
      gate.guardFree(uploadEntrance, (exchange, caller) => upload(files, exchange, caller)),
    ),
    route(
      'GET',
      '/v1/files',
      gate.guardFree(entrance, async (exchange, { user }) => {
        const page = files.list(user, parseFileQuery(exchange.query));
        exchange.replyJson(200, fileList(page.files.map(shown), page.hasMore));
      }),
    ),
    route(
      'GET',
      '/v1/files/:id',
      gate.guardFree(entrance, async (exchange, { user }, { id }) => {
        exchange.replyJson(200, file(shown(files.get(user, id))));
      }),
    ),
    route(
      'DELETE',
      '/v1/files/:id',
      gate.guardFree(entrance, async (exchange, { user }, { id }) => {
        await files.delete(user, id);
        exchange.replyJson(200, fileDeleted(id));
      }),
    ),
    route(
      'GET',
      '/v1/files/:id/content',
      gate.guardFree(entrance, (exchange, { user }, { id }) => content(files, exchange, user, id)),
    ),
  ];
}

function shown({ id, bytes, createdS, filename, progress }: FileRecord): FileShown {
  const failure = progress.status === 'error' ? progress.reason : null;
  return { id, bytes, createdS, filename, failure };
}

// ------------------------------------------------------------------- upload

async function upload(files: Files, exchange: Exchange, { user }: Caller): Promise<void> {
  const bytesMin = Math.max(0, (exchange.declaredBytes ?? 0) - limits.uploadFormBytesMax);
  const begun = await files.begin(user, bytesMin);
  try {
    const form = new UploadForm(begun);
    await readForm(exchange.header('content-type'), counted(exchange), form);
    exchange.replyJson(200, file(shown(await begun.keep(form.filename()))));
  } finally {
    await begun.end();
  }
}

/** The length of a chunked body is known only at its end. */
function counted(exchange: Exchange): NextPiece {
  let bytes = 0;
  return async () => {
    const piece = await exchange.nextOfBody();
    bytes += piece?.length ?? 0;
    if (bytes > UPLOAD_BYTES_MAX) throw fileTooLarge();
    return piece;
  };
}

/** The parts may come in any order; a wrong one is refused at once. */
class UploadForm implements FormTaker {
  #files = 0;
  #filename = '';
  #purpose: string | null = null;
  #fileIsField = false;

  constructor(readonly upload: Upload) {}

  field(name: string | undefined, value: string): void {
    if (name === 'file') this.#fileIsField = true;
    if (name !== 'purpose') return;
    checkPurpose(value);
    this.#purpose = value;
  }

  file(name: string | undefined, filename: string): (piece: Buffer) => Promise<void> {
    this.#files += 1;
    checkFilePart(name, this.#files);
    this.#filename = checkFilename(filename);
    return (piece) => this.upload.write(piece);
  }

  /** Checks that the form is complete. @throws ApiError for a missing part. */
  filename(): string {
    checkPurpose(this.#purpose);
    if (this.#files === 0) throw fileMissing(this.#fileIsField);
    return this.#filename;
  }
}

// ------------------------------------------------------------------ content

async function content(files: Files, exchange: Exchange, user: string, id: string): Promise<void> {
  const record = await files.extracted(user, id, leaving(exchange));
  const { progress, filename } = record;
  if (progress.status === 'error') {
    throw new ApiError('extractionFailed', { error: progress.reason });
  }
  if (progress.status !== 'ok') throw new Error(`the file is ${progress.status}`);
  const { fileType, title } = progress.document;
  const frame = contentFrame({ fileType, filename, title });
  const text = await files.openText(record);
  try {
    await send(exchange, frame, text);
  } finally {
    await text.close();
  }
}

/** Throws a failure on the way: the connection is then cut, since the status has left already. */
async function send(
  exchange: Exchange,
  { head, tail }: ReturnType<typeof contentFrame>,
  text: FileHandle,
): Promise<void> {
  const sink = exchange.openStream(200, contentHeaders);
  sink.write(head);
  const buffer = Buffer.allocUnsafe(limits.contentReadBytes);
  while (!exchange.gone && exchange.method !== 'HEAD') {
    const { bytesRead } = await text.read(buffer, 0, buffer.length, null);
    if (bytesRead === 0) break;
    if (!sink.write(buffer.subarray(0, bytesRead))) await sink.drained();
  }
  sink.write(tail);
  sink.end();
}

/** A client that leaves stops waiting; the extraction goes on. */
function leaving(exchange: Exchange): AbortSignal {
  const control = new AbortController();
  exchange.onGone(() => control.abort(new ClientGoneError('the client left')));
  return control.signal;
}
