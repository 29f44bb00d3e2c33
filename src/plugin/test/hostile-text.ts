/**
 * Owns the texts that are made to hurt a tokenizer: endless runs of one kind.
 * It must stay deterministic.
 */
import { seededRandom } from './random-text.js';

/** @param length of each text, in UTF-16 units, roughly. */
export function hostileTexts(length: number): Readonly<Record<string, string>> {
  const random = seededRandom(7);
  const filled = (make: () => string): string => {
    const parts: string[] = [];
    for (let size = 0; size < length; size += parts.at(-1)?.length ?? 1) parts.push(make());
    return parts.join('');
  };
  const any = (first: number, count: number) => () => String.fromCodePoint(first + random(count));
  const of = (text: string) => () => text.charAt(random(text.length));
  return {
    'one letter': 'a'.repeat(length),
    'one word': filled(any(0x61, 26)),
    capitals: filled(any(0x41, 26)),
    'cyrillic word': filled(any(0x430, 32)),
    blanks: ' '.repeat(length),
    'mixed white space': filled(of(' \n\t\r')),
    newlines: '\n'.repeat(length),
    digits: filled(any(0x30, 10)),
    punctuation: filled(of('!"#$%&()*+,-./:;<=>?@[]^_`{|}~')),
    'one mark': '!'.repeat(length),
    apostrophes: "'".repeat(length),
    'one emoji': '😀'.repeat(length / 2),
    emoji: filled(any(0x1f300, 0x300)),
    han: filled(any(0x4e00, 0x5000)),
    'one han': '的'.repeat(length),
    'combining marks': `e${'\u0301'.repeat(length)}`,
    'words just below the bound': filled(() => `${'ab'.repeat(127)} `),
    'blanks just below the bound': filled(() => `${' '.repeat(255)}a`),
    'special look-alikes': filled(() => '<|im_end|>'),
  };
}

const SENTENCE =
  'The service counts the tokens of a prompt once, and what it counted is what the engine evaluates; ' +
  'in 2024 nobody else did (they said "later"). ';

export function prose(length: number): string {
  return SENTENCE.repeat(Math.ceil(length / SENTENCE.length)).slice(0, length);
}
