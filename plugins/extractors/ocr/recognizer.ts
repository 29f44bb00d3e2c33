/**
 * Owns tesseract: one worker thread a process, made at the first picture and kept for the next ones.
 * It must never fetch anything: the languages are installed packages, and a missing one is an error that names its package.
 */
import { existsSync } from 'node:fs';
import { copyFile, mkdtemp, rm } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { Worker as Thread } from 'node:worker_threads';
import { createWorker, OEM, PSM, type Worker } from 'tesseract.js';
import { type GreyPicture, isBlank, pgmOf } from './picture.js';

export interface Recognizer {
  /** Lines as they stand in the picture; empty where no text is found. */
  recognize(picture: GreyPicture): Promise<string>;
  close(): Promise<void>;
}

/** Mean confidence (0…100) below which "text" is only texture: photos reach 0…35, bad scans about 60. */
const CONFIDENCE_MIN = 40;

/** Extractors of one process with the same languages share one worker; the last to close ends it. */
const shared = new Map<string, { users: number; engine: Promise<OcrEngine> | null }>();

/** Checks immediately that the languages are installed; loads them at the first picture. */
export function openRecognizer(languages: readonly string[]): Recognizer {
  // Without a language no picture is read.
  if (languages.length === 0) return { recognize: async () => '', close: async () => {} };
  const files = languages.map(languageFile);
  const key = languages.join('+');
  const entry = shared.get(key) ?? { users: 0, engine: null };
  shared.set(key, entry);
  entry.users += 1;
  let open = true;
  return {
    async recognize(picture) {
      if (isBlank(picture)) return '';
      entry.engine ??= OcrEngine.start(languages, files);
      const { engine } = entry;
      return await engine
        .then((ready) => ready.read(picture))
        .catch((cause: unknown) => {
          // A broken worker must not be asked again.
          if (entry.engine === engine) entry.engine = null;
          throw cause;
        });
    },
    async close() {
      if (!open) return;
      open = false;
      entry.users -= 1;
      if (entry.users > 0) return;
      const { engine } = entry;
      entry.engine = null;
      await engine?.then((ready) => ready.end()).catch(() => {});
    },
  };
}

/** The name becomes part of a path, so only plain names are allowed. */
const languageName = /^[a-zA-Z0-9_]{1,32}$/;

function languageFile(language: string): string {
  const name = `@tesseract.js-data/${language}`;
  if (!languageName.test(language))
    throw new Error(`${JSON.stringify(language)} is no OCR language`);
  try {
    const manifest = createRequire(import.meta.url).resolve(`${name}/package.json`);
    const file = join(dirname(manifest), '4.0.0_best_int', `${language}.traineddata.gz`);
    if (existsSync(file)) return file;
  } catch {
    // Not installed.
  }
  throw new Error(`OCR cannot read "${language}": the package ${name} is not installed`);
}

/** Routes a failure of the worker to the picture it was reading. */
interface Failures {
  fail: (cause: unknown) => void;
}

class OcrEngine {
  #turn: Promise<unknown> = Promise.resolve();

  private constructor(
    private readonly worker: Worker,
    private readonly failures: Failures,
  ) {
    // Waiting for the next picture must not keep the process alive.
    thread(worker).unref();
  }

  static async start(languages: readonly string[], files: readonly string[]): Promise<OcrEngine> {
    // The worker reads all languages from one folder, and each is a package of its own. A copy: links are not for readers.
    const folder = await mkdtemp(join(tmpdir(), 'ocr-'));
    try {
      for (const [at, file] of files.entries()) {
        await copyFile(file, join(folder, `${languages[at]}.traineddata.gz`));
      }
      return await OcrEngine.#start(languages, folder);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  }

  static async #start(languages: readonly string[], langPath: string): Promise<OcrEngine> {
    const failures: Failures = { fail: () => {} };
    const failed = new Promise<never>((_, reject) => {
      failures.fail = reject;
    });
    // Without an error handler the library throws a job's failure from an event listener.
    const errorHandler = (cause: unknown) => failures.fail(cause);
    const options = { langPath, cacheMethod: 'none', gzip: true, errorHandler };
    const made = createWorker([...languages], OEM.LSTM_ONLY, options);
    const worker = await Promise.race([made, failed]);
    thread(worker).on('error', (cause) => failures.fail(cause));
    thread(worker).on('exit', () => failures.fail(new Error('the OCR worker has ended')));
    await Promise.race([
      worker.setParameters({ preserve_interword_spaces: '1', user_defined_dpi: '200' }),
      failed,
    ]);
    return new OcrEngine(worker, failures);
  }

  /** One at a time: the worker has one thread, and failures belong to one picture. */
  read(picture: GreyPicture): Promise<string> {
    const reading = this.#turn.then(() => this.#read(picture));
    this.#turn = reading.catch(() => {});
    return reading;
  }

  async end(): Promise<void> {
    await this.#turn;
    await this.worker.terminate();
  }

  async #read(picture: GreyPicture): Promise<string> {
    thread(this.worker).ref();
    try {
      const file = pgmOf(picture);
      const page = await this.#pass(file, PSM.AUTO);
      // A single word has no page layout to analyse.
      return page !== '' || !isSmall(picture) ? page : await this.#pass(file, PSM.SINGLE_BLOCK);
    } finally {
      thread(this.worker).unref();
    }
  }

  async #pass(file: Uint8Array, mode: PSM): Promise<string> {
    const failed = new Promise<never>((_, reject) => {
      this.failures.fail = (cause) => reject(toError(cause));
    });
    const work = this.worker
      .setParameters({ tessedit_pageseg_mode: mode })
      .then(() => this.worker.recognize(Buffer.from(file.buffer, file.byteOffset, file.length)));
    const { data } = await Promise.race([work, failed]);
    return data.confidence < CONFIDENCE_MIN ? '' : tidyLines(data.text);
  }
}

const SMALL_HEIGHT = 400;

function isSmall({ height }: GreyPicture): boolean {
  return height <= SMALL_HEIGHT;
}

/** The library hands out its thread, though its types do not say so. */
function thread(worker: Worker): Thread {
  return (worker as Worker & { readonly worker: Thread }).worker;
}

function toError(cause: unknown): Error {
  return cause instanceof Error ? cause : new Error(`OCR failed: ${String(cause)}`);
}

/** Wide gaps separate cells; Han characters are recognised one by one and joined without spaces. */
function tidyLines(text: string): string {
  return text
    .replace(/ {4,}/g, '\t')
    .replace(/(?<=\p{Script=Han}) +(?=\p{Script=Han})/gu, '')
    .replace(/[ \t]+$/gm, '')
    .replace(/\n{3,}/g, '\n\n')
    .trim();
}
