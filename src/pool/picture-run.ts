/**
 * Owns one process of the program that recognises text: picture after picture in, what the program writes of each out.
 * It must never read what the program writes, but for its first and last words, nor let it run once its time or its room for an answer is over.
 *
 * The program takes names of files on its standard input, and loads its models once. It does not say where an answer
 * ends, so behind each picture it is given an empty one: what it writes of that is known.
 */
import type { ChildProcess } from 'node:child_process';
import type { Clock } from '../clock.js';
import { limits } from '../limits/index.js';
import type { PictureToRead } from '../plugin/contract.js';
import { type Command, killChild, spawnCommand } from './child.js';
import type { PictureAnswer } from './messages.js';
import { PictureFiles } from './picture-file.js';
import { GatheredBytes } from './transport.js';

export interface PictureProgram {
  readonly env: Readonly<Record<string, string>>;
  command(layout: PictureToRead['layout']): Command;
}

export interface PictureRunOptions {
  readonly clock: Clock;
  readonly msMax: number;
  /** Hears why there is no answer. */
  readonly log: (line: string) => void;
}

/** Of the picture and of the empty one, as the program finds them. */
const [PICTURE_FD, EMPTY_FD] = [3, 5];
const NAMES = [PICTURE_FD, EMPTY_FD].map((fd) => `/proc/self/fd/${fd}\n`).join('');

const NOT_HOCR = 'it wrote something else than hOCR';

interface Asked {
  readonly log: (line: string) => void;
  readonly finish: (answer: PictureAnswer) => void;
  readonly output: GatheredBytes;
}

export class PictureRun {
  #child: ChildProcess | null = null;
  #files: PictureFiles | null = null;
  #asked: Asked | null = null;
  #pictures = 0;
  /** By the clock. */
  #workedMs = 0;
  #isOver = false;

  constructor(
    private readonly program: PictureProgram,
    private readonly layout: PictureToRead['layout'],
  ) {}

  /** Whether it may be asked again. */
  get usable(): boolean {
    return !this.#isOver;
  }

  /** Whether an answer is awaited. */
  get isAsked(): boolean {
    return this.#asked !== null;
  }

  /** Whether so much of the system's bound on its time is over that another document may not get through. */
  get isWorn(): boolean {
    return this.#workedMs > limits.extractionMsMax;
  }

  /** One at a time. Comes once, and never as a rejection; null where the program failed, which is its end. */
  ask(picture: PictureToRead, { clock, msMax, log }: PictureRunOptions): Promise<PictureAnswer> {
    return new Promise((resolve) => {
      const cancel = clock.after(msMax, () => this.end(`it took longer than ${msMax / 1000} s`));
      const begunMs = clock.monotonicMs();
      const finish = (answer: PictureAnswer) => {
        cancel();
        this.#workedMs += clock.monotonicMs() - begunMs;
        this.#asked = null;
        resolve(answer);
      };
      this.#asked = { log, finish, output: new GatheredBytes() };
      if (this.#isOver) this.end('it has ended');
      else
        this.#give(picture).catch((cause: unknown) =>
          this.end(cause instanceof Error ? cause.message : 'it could not be started'),
        );
    });
  }

  /** Kills the program; the answer that is awaited is then null. */
  end(why: string): void {
    this.#isOver = true;
    if (this.#child !== null) killChild(this.#child);
    this.#closeFiles();
    const asked = this.#asked;
    asked?.log(why);
    asked?.finish(null);
  }

  async #give(picture: PictureToRead): Promise<void> {
    this.#files ??= await PictureFiles.open();
    // Who ended it meanwhile had no files to close yet.
    if (this.#isOver) {
      this.#closeFiles();
      return;
    }
    await this.#files.write(picture);
    if (this.#isOver) return;
    this.#child ??= this.#start(this.#files);
    this.#pictures += 1;
    this.#child.stdin?.write(NAMES);
  }

  #closeFiles(): void {
    const files = this.#files;
    this.#files = null;
    // One that is written to is closed behind that.
    void files?.close().catch(() => {});
  }

  #start(files: PictureFiles): ChildProcess {
    const { command, env } = this.program;
    const { picture, empty } = files.descriptors;
    const child = spawnCommand(
      command(this.layout),
      ['pipe', 'pipe', 'ignore', picture, 'ignore', empty],
      { env: { ...env }, cwd: '/' },
    );
    child.once('error', (cause) => this.end(cause.message));
    child.stdout?.on('data', (part: Buffer) => this.#take(part));
    child.once('close', (code, signal) => {
      if (code === 0) this.end(NOT_HOCR);
      else this.end(`it ended: ${signal ?? `code ${code}`}`);
    });
    // Who ends before a name has gone in is met at its end.
    child.stdin?.on('error', () => {});
    return child;
  }

  #take(part: Buffer): void {
    const asked = this.#asked;
    const length = (asked?.output.length ?? 0) + part.length;
    if (asked === null) this.end('it wrote what it was not asked for');
    else if (length > limits.recognitionOutputBytesMax) this.end('it wrote more than it may');
    else {
      asked.output.add(part);
      // Nothing else that it writes ends so.
      if (part.at(-1) === FORM_FEED) this.#finish(asked);
    }
  }

  #finish({ output, finish }: Asked): void {
    const end = emptyPageAt(output.bytes, 2 * this.#pictures);
    if (end === null) return;
    const said = output.take();
    if (isBegun(said)) finish(said.subarray(0, end));
    else this.end(NOT_HOCR);
  }
}

/** Before the text of each page but the first, or behind each; no letter of a model. */
const FORM_FEED = 0x0c;
const HEAD_LENGTH_MAX = 4096;
const EMPTY_PAGE = / {2}<div class='ocr_page' id='page_(\d+)' title='[^<>]*'>\s*<\/div>\s*$/;

/** Where the page of this number begins, which is empty and the last one; null where it is not there. */
function emptyPageAt(output: Buffer, page: number): number | null {
  const from = Math.max(0, output.length - HEAD_LENGTH_MAX);
  const found = EMPTY_PAGE.exec(output.subarray(from).toString('latin1'));
  return found === null || Number(found[1]) !== page ? null : from + found.index;
}

/** A program that prints something else is told of, and who asked does not take it for an empty page. */
function isBegun(output: Buffer): boolean {
  const begin = output.subarray(0, HEAD_LENGTH_MAX).toString('latin1');
  return begin.startsWith('<?xml') || begin.trimStart().startsWith("<div class='ocr_page'");
}
