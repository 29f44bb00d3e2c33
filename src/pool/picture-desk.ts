/**
 * Owns what one reader may have recognised by the program of the machine: one picture at a time, while a document is read.
 * It must never let a program outlive its reader, nor work on for a document that is over.
 */
import type { Clock } from '../clock.js';
import { limits } from '../limits/index.js';
import type { PictureToRead } from '../plugin/contract.js';
import type { PictureAnswer } from './messages.js';
import { type PictureProgram, PictureRun } from './picture-run.js';

export interface PictureDeskOptions {
  /** Null: pictures may not be asked for. */
  readonly program: PictureProgram | null;
  readonly clock: Clock;
  readonly log: (line: string) => void;
}

export class PictureDesk {
  /** Of this owner, as the reader is: each has its models in memory for the next picture. */
  readonly #runs = new Map<PictureToRead['layout'], PictureRun>();
  #isAsked = false;
  #isOpen = false;
  #cancelIdle = () => {};

  constructor(readonly options: PictureDeskOptions) {}

  /** A document is read from now on. */
  open(): void {
    this.#cancelIdle();
    this.#isOpen = true;
  }

  /** The document is over: what still works for it ends, and what waits has some time for the next one. */
  close(): void {
    this.#isOpen = false;
    for (const run of this.#runs.values()) if (run.isAsked || run.isWorn) run.end(OVER);
    this.#cancelIdle();
    if (this.#runs.size === 0) return;
    const { clock } = this.options;
    this.#cancelIdle = clock.after(limits.recognitionIdleMsMax, () => this.end());
  }

  /** Ends all programs. */
  end(): void {
    this.#isOpen = false;
    this.#cancelIdle();
    for (const run of this.#runs.values()) run.end(OVER);
    this.#runs.clear();
  }

  /** @throws Error where no picture may be asked for now. */
  ask(picture: PictureToRead, tell: (answer: PictureAnswer) => void): void {
    const { program, clock, log } = this.options;
    if (program === null || this.#isAsked) throw new Error('a picture that may not be asked');
    // What an extractor asks for without waiting may come behind its document.
    if (!this.#isOpen) {
      tell(null);
      return;
    }
    this.#isAsked = true;
    const answer = this.#runFor(picture.layout, program).ask(picture, {
      clock,
      msMax: limits.recognitionMsMax,
      log: (why) => {
        if (why !== OVER) log(`recognising a picture: the program failed: ${why}`);
      },
    });
    void answer.then((output) => {
      this.#isAsked = false;
      tell(output);
    });
  }

  #runFor(layout: PictureToRead['layout'], program: PictureProgram): PictureRun {
    const present = this.#runs.get(layout);
    if (present?.usable === true) return present;
    const run = new PictureRun(program, layout);
    this.#runs.set(layout, run);
    return run;
  }
}

const OVER = 'its document is over';
