/**
 * Owns what one reader may have recognised by the program of the machine: one picture at a time, while a document is read.
 * It must never let a program outlive the document that it runs for.
 */
import type { Clock } from '../clock.js';
import { limits } from '../limits/index.js';
import type { PictureToRead } from '../plugin/contract.js';
import type { PictureAnswer } from './messages.js';
import { type PictureProgram, type PictureRun, startPicture } from './picture-run.js';

export interface PictureDeskOptions {
  /** Null: pictures may not be asked for. */
  readonly program: PictureProgram | null;
  readonly clock: Clock;
  readonly log: (line: string) => void;
}

export class PictureDesk {
  #run: PictureRun | null = null;
  #isOpen = false;

  constructor(readonly options: PictureDeskOptions) {}

  /** A document is read from now on. */
  open(): void {
    this.#isOpen = true;
  }

  /** Ends what runs: the document is over. */
  close(): void {
    this.#isOpen = false;
    this.#run?.end(OVER);
  }

  /** @throws Error where no picture may be asked for now. */
  ask(picture: PictureToRead, tell: (answer: PictureAnswer) => void): void {
    const { program, clock, log } = this.options;
    if (program === null || this.#run !== null) throw new Error('a picture that may not be asked');
    // What an extractor asks for without waiting may come behind its document.
    if (!this.#isOpen) {
      tell(null);
      return;
    }
    const run = startPicture(program, picture, {
      clock,
      msMax: limits.recognitionMsMax,
      log: (why) => {
        if (why !== OVER) log(`recognising a picture: the program failed: ${why}`);
      },
    });
    this.#run = run;
    void run.answer.then((answer) => {
      this.#run = null;
      tell(answer);
    });
  }
}

const OVER = 'its document is over';
