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
import type { ExtractorOptions } from 'preface/plugin';
import { createWorker, OEM, PSM, type Worker } from 'tesseract.js';
import { NO_TEXT, type PlacedText } from '../shared/placed.js';
import { strangeShare } from '../shared/plausible.js';
import { levelLines, mirroredBack, placesOf, turnedBack } from './lines.js';
import { type GreyPicture, isBlank, pgmOf } from './picture.js';
import { allowRelaxedSimd } from './relaxed-simd.js';
import { mirrored, runsSideways, type Turn, turned } from './turn.js';

/** Lines as they stand in the picture, in its pixels; empty where no text is found. */
export interface Recognized extends PlacedText {
  /** Mean confidence in its words, 0…100. */
  readonly score: number;
}

export interface Recognizer {
  /** @param turns where a picture may lie on its side or on its head: each try takes as long as the first. */
  recognize(picture: GreyPicture, turns?: boolean): Promise<Recognized>;
  close(): Promise<void>;
}

export type Languages = Pick<ExtractorOptions, 'languages' | 'languagesFolder'>;

const NOTHING: Recognized = { ...NO_TEXT, score: 0 };

/** Mean confidence (0…100) below which "text" is only texture: photos reach 0…35, bad scans about 60. */
const CONFIDENCE_MIN = 40;
/** Below this, what looks like no words is none: letters on their head and on their side reach it. */
const CONFIDENCE_POOR = 65;
/** From here on a picture is upright. */
const CONFIDENCE_GOOD = 75;
/** As a share of a text, of what is no word: more is no text of a poor picture. */
const STRANGE_MAX = 0.5;
const STRANGE_GOOD = 0.3;

/** Extractors of one process with the same languages share one worker; the last to close ends it. */
const shared = new Map<string, { users: number; engine: Promise<OcrEngine> | null }>();

/** Checks immediately that the languages are installed; loads them at the first picture. */
export function openRecognizer({ languages, languagesFolder }: Languages): Recognizer {
  // Without a language no picture is read.
  if (languages.length === 0) return { recognize: async () => NOTHING, close: async () => {} };
  const files = languages.map((language) => languageFile(language, languagesFolder));
  const key = files.join('\n');
  const entry = shared.get(key) ?? { users: 0, engine: null };
  shared.set(key, entry);
  entry.users += 1;
  let open = true;
  return {
    async recognize(picture, turns = true) {
      if (isBlank(picture)) return NOTHING;
      entry.engine ??= OcrEngine.start(languages, files);
      const { engine } = entry;
      return await engine
        .then((ready) => ready.read(picture, turns))
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
        // The worker tells by its first bytes whether it is packed.
        await copyFile(file, join(folder, `${languages[at]}.traineddata.gz`));
      }
      return await OcrEngine.#start(languages, folder);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  }

  static async #start(languages: readonly string[], langPath: string): Promise<OcrEngine> {
    // Before the worker chooses among the builds of the library.
    allowRelaxedSimd();
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
      const best = turns ? await this.#bestTurn(picture) : await this.#upright(picture, false);
      if (!isText(best)) return NOTHING;
      const { text, lines, score } = best;
      return { text, lines, score };
    } finally {
      thread(this.worker).unref();
    }
  }

  /** The likelier directions first; a mirror shows signs that are much like letters, so a poor text may be one of its. */
  async #bestTurn(picture: GreyPicture): Promise<Attempt> {
    const isSideways = runsSideways(picture);
    const order: Turn[] = isSideways ? [90, 270, 0, 180] : [0, 180, 90, 270];
    const best = await this.#firstGood(picture, order);
    if (isGood(best) || !isText(best)) return best;
    const seen = await this.#firstGood(mirrored(picture), order.slice(0, 2));
    if (!isGood(seen)) return best;
    return { ...seen, lines: seen.lines.map((line) => line && mirroredBack(line, picture)) };
  }

  /** The best where none is good. */
  async #firstGood(picture: GreyPicture, order: readonly Turn[]): Promise<Attempt> {
    let best: Attempt | null = null;
    for (const turn of order) {
      const attempt = await this.#upright(turned(picture, turn), true);
      if (best === null || worthOf(attempt) > worthOf(best)) {
        const lines = attempt.lines.map((line) => line && turnedBack(line, picture, turn));
        best = { ...attempt, lines };
      }
      if (isGood(best)) break;
    }
    return best ?? NO_ATTEMPT;
  }

  /** @param level makes lines that lie askew level first. */
  async #upright(picture: GreyPicture, level: boolean): Promise<Attempt> {
    const page = await this.#pass(picture, PSM.AUTO, level);
    // A single word has no page layout to analyse.
    if (isText(page) || !isSmall(picture)) return page;
    return await this.#pass(picture, PSM.SINGLE_BLOCK, level);
  }

  async #pass(picture: GreyPicture, mode: PSM, level: boolean): Promise<Attempt> {
    const file = pgmOf(picture);
    const failed = new Promise<never>((_, reject) => {
      this.failures.fail = (cause) => reject(toError(cause));
    });
    const image = Buffer.from(file.buffer, file.byteOffset, file.length);
    const work = this.worker
      .setParameters({ tessedit_pageseg_mode: mode })
      .then(() => this.worker.recognize(image, { rotateAuto: level }, { text: true, tsv: true }));
    const { data } = await Promise.race([work, failed]);
    const text = tidyLines(data.text);
    const found = levelLines(data.tsv ?? '');
    const lines = placesOf(text, found, picture, data.rotateRadians ?? 0);
    return { text, lines, score: data.confidence, strange: strangeShare(text) };
  }
}

interface Attempt extends Recognized {
  /** Share of the text that is no word. */
  readonly strange: number;
}

const NO_ATTEMPT: Attempt = { ...NOTHING, strange: 1 };

function isText({ text, score, strange }: Attempt): boolean {
  if (text === '' || score < CONFIDENCE_MIN) return false;
  return score >= CONFIDENCE_POOR || strange <= STRANGE_MAX;
}

function isGood({ text, score, strange }: Attempt): boolean {
  return text !== '' && score >= CONFIDENCE_GOOD && strange <= STRANGE_GOOD;
}

/** Much sure text is worth more than a little. */
function worthOf({ text, score, strange }: Attempt): number {
  const letters = text.match(/[\p{L}\p{N}]/gu)?.length ?? 0;
  return Math.max(0, score - CONFIDENCE_MIN) * (1 - strange) * Math.sqrt(letters);
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
