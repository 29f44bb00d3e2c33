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

  /** Synchronous for short texts, which are most. */
  check(texts: readonly FilterText[], signal: AbortSignal): FilterVerdict | Promise<FilterVerdict> {
    const length = texts.reduce((sum, { text }) => sum + text.length, 0);
    if (length > limits.filterSliceLength) return this.#checkInTurns(texts, signal);
    for (const { text } of texts) {
      const scan = new Scan(this.rules);
      scan.push(text);
      scan.end();
      if (scan.rule !== null) return { type: 'rejected', rule: scan.rule };
    }
    return ALLOWED;
  }

  async #checkInTurns(texts: readonly FilterText[], signal: AbortSignal): Promise<FilterVerdict> {
    let left = limits.filterSliceLength;
    for (const { text } of texts) {
      const scan = new Scan(this.rules);
      for (let at = 0; at < text.length; ) {
        const slice = text.slice(at, at + left);
        scan.push(slice);
        if (scan.rule !== null) return { type: 'rejected', rule: scan.rule };
        at += slice.length;
        left -= slice.length;
        if (left > 0) continue;
        left = limits.filterSliceLength;
        await othersTurn();
        signal.throwIfAborted();
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
