/**
 * Owns an example: rejects a text that holds the number of a payment card, and streams it no further.
 * It must stay small enough to be read at once.
 */
import type { Filter, FilterPlugin, FilterStep, FilterStream, FilterVerdict } from 'preface/plugin';

/** 13 to 19 digits, in groups or not. */
const NUMBER = /(?<!\d)(?:\d[ -]?){12,18}\d(?!\d)/g;
/** A possible beginning of a number: held back until more text arrives. */
const OPEN_END = /(?<!\d)(?:\d[ -]?){1,18}\d?$/;
const ALLOWED = { type: 'allowed' } as const;
const REJECTED = { type: 'rejected', rule: 'payment card' } as const;

const filter: Filter = {
  check: (texts) => verdict(texts.map(({ text }) => text).join('\n')),
  open: (seen) => new CardStream(seen),
  close: async () => {},
};

class CardStream implements FilterStream {
  readonly #seen: number;
  #text: string;

  constructor(seen: string) {
    this.#seen = seen.length;
    this.#text = seen;
  }

  /** A classifier elsewhere would answer with a promise. */
  push(part: string): FilterStep {
    this.#text += part;
    const wait = OPEN_END.exec(this.#text)?.index ?? this.#text.length;
    if (verdict(this.#text.slice(0, wait)).type === 'rejected') return REJECTED;
    return { type: 'show', length: Math.max(0, wait - this.#seen) };
  }

  end(): FilterVerdict {
    return verdict(this.#text);
  }
}

function verdict(text: string): FilterVerdict {
  const numbers = (text.match(NUMBER) ?? []).map((found) => found.replaceAll(/\D/g, ''));
  return numbers.some(isCard) ? REJECTED : ALLOWED;
}

/** The checksum of Luhn: each second digit from the right counts double. */
function isCard(digits: string): boolean {
  const sum = [...digits].reverse().reduce((all, digit, i) => {
    const value = Number(digit) * (i % 2 === 0 ? 1 : 2);
    return all + (value > 9 ? value - 9 : value);
  }, 0);
  return sum % 10 === 0;
}

const plugin: FilterPlugin = {
  kind: 'filter',
  name: 'cards',
  contract: 1,
  open: async () => filter,
};

export default plugin;
