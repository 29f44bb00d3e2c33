/**
 * Owns tesseract.js: one worker thread a process, made at the first picture and kept for the next ones.
 * It must never fetch anything: the languages are installed packages, and a missing one is an error that names its package.
 */
import { existsSync } from 'node:fs';
import { copyFile, mkdtemp, rm } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { Worker as Thread } from 'node:worker_threads';
import type { ExtractorOptions } from 'preface/plugin';
import type * as Tesseract from 'tesseract.js';
import type { Worker } from 'tesseract.js';
import { levelLines } from './lines.js';
import { type GreyPicture, pgmOf } from './picture.js';
import { allowRelaxedSimd } from './relaxed-simd.js';
import { type Attempt, attemptOf, bestOf, type Layout, type Recognized } from './tries.js';

/** Loaded by the first picture: each reader of documents starts with this file. */
const library = () => createRequire(import.meta.url)('tesseract.js') as typeof Tesseract;

/** Extractors of one process with the same languages share one worker; the last to close ends it. */
const shared = new Map<string, { users: number; thread: Promise<LibraryThread> | null }>();

export interface Library {
  read(picture: GreyPicture, turns: boolean): Promise<Recognized>;
  close(): Promise<void>;
}

/** Checks immediately that the languages are installed; loads them at the first picture. */
export function openLibrary({
  languages,
  languagesFolder,
}: Pick<ExtractorOptions, 'languages' | 'languagesFolder'>): Library {
  const files = languages.map((language) => languageFile(language, languagesFolder));
  const key = files.join('\n');
  const entry = shared.get(key) ?? { users: 0, thread: null };
  shared.set(key, entry);
  entry.users += 1;
  let open = true;
  return {
    async read(picture, turns) {
      entry.thread ??= LibraryThread.start(languages, files);
      const { thread } = entry;
      return await thread
        .then((ready) => ready.read(picture, turns))
        .catch((cause: unknown) => {
          // A broken worker must not be asked again.
          if (entry.thread === thread) entry.thread = null;
          throw cause;
        });
    },
    async close() {
      if (!open) return;
      open = false;
      entry.users -= 1;
      if (entry.users > 0) return;
      const { thread } = entry;
      entry.thread = null;
      await thread?.then((ready) => ready.end()).catch(() => {});
    },
  };
}

/** The name becomes part of a path, so only plain names are allowed. */
const languageName = /^[a-zA-Z0-9_]{1,32}$/;

function languageFile(language: string, folder: string | undefined): string {
  const name = `@tesseract.js-data/${language}`;
  if (!languageName.test(language))
    throw new Error(`${JSON.stringify(language)} is no OCR language`);
  const own = folder === undefined ? null : join(folder, `${language}.traineddata`);
  if (own !== null && existsSync(own)) return own;
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

class LibraryThread {
  #turn: Promise<unknown> = Promise.resolve();

  private constructor(
    private readonly worker: Worker,
    private readonly failures: Failures,
  ) {
    // Waiting for the next picture must not keep the process alive.
    thread(worker).unref();
  }

  static async start(
    languages: readonly string[],
    files: readonly string[],
  ): Promise<LibraryThread> {
    // The worker reads all languages from one folder, and each is a package of its own. A copy: links are not for readers.
    const folder = await mkdtemp(join(tmpdir(), 'ocr-'));
    try {
      for (const [at, file] of files.entries()) {
        // The worker tells by its first bytes whether it is packed.
        await copyFile(file, join(folder, `${languages[at]}.traineddata.gz`));
      }
      return await LibraryThread.#start(languages, folder);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  }

  static async #start(languages: readonly string[], langPath: string): Promise<LibraryThread> {
    // Before the worker chooses among the builds of the library.
    allowRelaxedSimd();
    const failures: Failures = { fail: () => {} };
    const failed = new Promise<never>((_, reject) => {
      failures.fail = reject;
    });
    // Without an error handler the library throws a job's failure from an event listener.
    const errorHandler = (cause: unknown) => failures.fail(cause);
    const options = { langPath, cacheMethod: 'none', gzip: true, errorHandler };
    const { createWorker, OEM } = library();
    const made = createWorker([...languages], OEM.LSTM_ONLY, options);
    const worker = await Promise.race([made, failed]);
    thread(worker).on('error', (cause) => failures.fail(cause));
    thread(worker).on('exit', () => failures.fail(new Error('the OCR worker has ended')));
    await Promise.race([
      worker.setParameters({ preserve_interword_spaces: '1', user_defined_dpi: '200' }),
      failed,
    ]);
    return new LibraryThread(worker, failures);
  }

  /** One at a time: the worker has one thread, and failures belong to one picture. */
  read(picture: GreyPicture, turns: boolean): Promise<Recognized> {
    const reading = this.#turn.then(() => this.#read(picture, turns));
    this.#turn = reading.catch(() => {});
    return reading;
  }

  async end(): Promise<void> {
    await this.#turn;
    await this.worker.terminate();
  }

  async #read(picture: GreyPicture, turns: boolean): Promise<Recognized> {
    thread(this.worker).ref();
    try {
      return await bestOf((...asked) => this.#pass(...asked), picture, turns);
    } finally {
      thread(this.worker).unref();
    }
  }

  async #pass(picture: GreyPicture, layout: Layout, level: boolean): Promise<Attempt> {
    const { PSM } = library();
    const mode = layout === 'page' ? PSM.AUTO : PSM.SINGLE_BLOCK;
    const file = pgmOf(picture);
    const failed = new Promise<never>((_, reject) => {
      this.failures.fail = (cause) => reject(toError(cause));
    });
    const image = Buffer.from(file.buffer, file.byteOffset, file.length);
    const work = this.worker
      .setParameters({ tessedit_pageseg_mode: mode })
      .then(() => this.worker.recognize(image, { rotateAuto: level }, { text: true, tsv: true }));
    const { data } = await Promise.race([work, failed]);
    const { text, tsv, confidence, rotateRadians } = data;
    const place = { picture, radians: rotateRadians ?? 0 };
    return attemptOf({ text, found: levelLines(tsv ?? ''), score: confidence }, place);
  }
}

/** The library hands out its thread, though its types do not say so. */
function thread(worker: Worker): Thread {
  return (worker as Worker & { readonly worker: Thread }).worker;
}

function toError(cause: unknown): Error {
  return cause instanceof Error ? cause : new Error(`OCR failed: ${String(cause)}`);
}
