/**
 * Owns what an operator sees of the files, and the reading of one that was never uploaded; both need no service.
 * It must never write a record, nor leave anything of a document it read.
 */
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join, resolve } from 'node:path';
import { systemClock } from '../clock.js';
import { decodeRecord } from '../codec.js';
import { allFiles, fileKeys } from '../files/records.js';
import { ExtractionPool } from '../pool/extraction.js';
import type { ExtractProgress } from '../pool/messages.js';
import { choosePictureProgram } from '../pool/picture-program.js';
import { readerWalls } from '../pool/reader-walls.js';
import { isFileId } from '../protocol/file-id.js';
import type { FileRecord } from '../rules/file-state.js';
import type { Config } from '../settings/config.js';
import { type Progress, progressOn, sizeText } from '../weights/progress.js';
import { withOfflineRecords } from './offline-records.js';
import { jsonText, printable } from './print.js';

type Row = Record<string, string>;

export async function listedFiles(config: Config, user: string | undefined): Promise<Row[]> {
  return await withOfflineRecords(config, (store) =>
    [...allFiles(store)]
      .filter(({ owner }) => user === undefined || owner === user)
      .sort((one, other) => one.createdS - other.createdS)
      .map(row),
  );
}

/** @throws Error for an id that is not there. */
export async function shownFile(config: Config, id: string): Promise<FileRecord> {
  return await withOfflineRecords(config, (store) => {
    const record = isFileId(id) ? store.get(fileKeys.record(id)) : null;
    if (record === null) {
      throw new Error(`there is no file ${id}; \`preface files list\` shows them`);
    }
    return decodeRecord<FileRecord>(record.value);
  });
}

/** The text, or the JSON that the service would answer; the pages go by on standard error. */
export async function extractedText(config: Config, path: string, json: boolean): Promise<string> {
  const found = await extractedFile(config, path, progressOn(process.stderr, systemClock));
  return json ? jsonText(found) : found.content;
}

interface ExtractedFile {
  readonly content: string;
  readonly file_type: string;
  readonly filename: string;
  readonly title: string;
  readonly type: 'file';
}

/** What the service would make of it. @throws Error that says why it cannot be read. */
async function extractedFile(
  config: Config,
  path: string,
  progress: Progress,
): Promise<ExtractedFile> {
  const folder = await mkdtemp(join(tmpdir(), 'preface-extract-'));
  const { line: log } = progress;
  const { extractors, ocrLanguages: languages, ocrPictures: pictures } = config;
  const { ocrData: languagesFolder } = config;
  const walls = await readerWalls(config);
  const { program: pictureProgram } = await choosePictureProgram(config, { walls });
  const reading = { extractors, languages, languagesFolder, pictures, walls, processes: 1 };
  const pool = new ExtractionPool({ ...reading, pictureProgram, clock: systemClock, log });
  const filename = basename(path);
  const target = join(folder, 'text');
  const meter = progress.pages(printable(filename));
  try {
    const request = { owner: '', source: resolve(path), filename, target };
    const onProgress = ({ page, pages }: ExtractProgress) => meter.at(page, pages);
    const result = await pool.extract(request, { onProgress }).finally(() => meter.end());
    if (result.type === 'refused') throw new Error(`${path}: ${result.reason}`);
    const content = JSON.parse(await readFile(target, 'utf8')) as string;
    const { fileType, title } = result.document;
    return { content, file_type: fileType, filename, title, type: 'file' };
  } finally {
    await pool.close();
    await rm(folder, { recursive: true, force: true });
  }
}

function row({ id, owner, bytes, createdS, filename, progress }: FileRecord): Row {
  return {
    id,
    user: owner,
    status: progress.status,
    size: sizeText(bytes),
    text: progress.status === 'ok' ? sizeText(progress.document.bytes) : '-',
    created: new Date(createdS * 1000).toISOString(),
    name: printable(filename),
    reason: progress.status === 'error' ? progress.reason : '',
  };
}
