/**
 * Owns content review by a list: terms and patterns from a file, found in what users send and in what models say.
 * It must never pass text on while it may still be the beginning of a term, or fetch anything.
 */
import { readFile } from 'node:fs/promises';
import { setImmediate as othersTurn } from 'node:timers/promises';
import {
  type Filter,
  type FilterPlugin,
  type FilterStep,
  type FilterStream,
  type FilterText,
  type FilterVerdict,
  limits,
} from 'preface/plugin';
import { readRules, type WordRules } from './rules.js';
import { Scan } from './scan.js';

const plugin: FilterPlugin = {
  kind: 'filter',
  name: 'words',
  contract: 1,
  async open({ file }) {
    if (file === null) throw new Error('the filter words needs a file of terms: words=FILE');
    return new WordFilter(readRules(await readBounded(file), file));
  },
};

export default plugin;

async function readBounded(file: string): Promise<string> {
  const bytes = await readFile(file);
  if (bytes.length > limits.filterFileBytesMax) {
    throw new Error(
      `${file} has ${bytes.length} bytes, at most ${limits.filterFileBytesMax} are allowed`,
    );
  }
  return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
}

const ALLOWED: FilterVerdict = { type: 'allowed' };

class WordFilter implements Filter {
  constructor(readonly rules: WordRules) {}

  /** Synchronous where even the worst text of this length is little work. */
  check(texts: readonly FilterText[], signal: AbortSignal): FilterVerdict | Promise<FilterVerdict> {
    const length = texts.reduce((sum, { text }) => sum + text.length, 0);
    const workMax = length * (1 + this.rules.patterns.states.length);
    if (workMax > limits.filterSliceWork) return this.#checkInTurns(texts, signal);
    for (const { text } of texts) {
      const scan = new Scan(this.rules);
      scan.push(text);
      scan.end();
      if (scan.rule !== null) return { type: 'rejected', rule: scan.rule };
    }
    return ALLOWED;
  }

  async #checkInTurns(texts: readonly FilterText[], signal: AbortSignal): Promise<FilterVerdict> {
    const pauses = new Pauses(signal);
    for (const { text } of texts) {
      const scan = new Scan(this.rules);
      let before = 0;
      for (let at = 0; at < text.length; ) {
        const slice = text.slice(at, at + pauses.sliceLength);
        scan.push(slice);
        if (scan.rule !== null) return { type: 'rejected', rule: scan.rule };
        at += slice.length;
        await pauses.after(scan.work - before);
        before = scan.work;
      }
      scan.end();
      if (scan.rule !== null) return { type: 'rejected', rule: scan.rule };
    }
    return ALLOWED;
  }

  open(before: string): FilterStream {
    return new WordStream(this.rules, before);
  }

  async close(): Promise<void> {}
}

const SLICE_LENGTH_MIN = 4;

/** Lets others have their turn after bounded work, however much a character of the text costs. */
class Pauses {
  /** Characters to read at once: more while they cost little, fewer where they cost much. */
  sliceLength = SLICE_LENGTH_MIN;
  #work = 0;

  constructor(readonly signal: AbortSignal) {}

  async after(work: number): Promise<void> {
    if (work > limits.filterSliceWork / 2) {
      this.sliceLength = Math.max(SLICE_LENGTH_MIN, this.sliceLength >> 1);
    } else if (work < limits.filterSliceWork / 4) {
      this.sliceLength = Math.min(limits.filterSliceLength, this.sliceLength * 2);
    }
    this.#work += work;
    if (this.#work < limits.filterSliceWork) return;
    this.#work = 0;
    await othersTurn();
    this.signal.throwIfAborted();
  }
}

class WordStream implements FilterStream {
  readonly #scan: Scan;
  readonly #before: number;

  constructor(rules: WordRules, before: string) {
    this.#scan = new Scan(rules);
    this.#scan.push(before);
    this.#before = before.length;
  }

  push(text: string): FilterStep {
    this.#scan.push(text);
    const { rule, clearLength } = this.#scan;
    if (rule !== null) return { type: 'rejected', rule };
    return { type: 'show', length: Math.max(0, clearLength - this.#before) };
  }

  end(): FilterVerdict {
    this.#scan.end();
    const { rule } = this.#scan;
    return rule === null ? ALLOWED : { type: 'rejected', rule };
  }
}
