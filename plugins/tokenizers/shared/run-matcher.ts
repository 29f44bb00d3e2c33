/**
 * Owns matching a piece pattern without the regular-expression engine, whose stack overflows on a run of millions.
 * It must derive everything from the pattern's source, so that both always match alike.
 */

/** Repeats that one call of the engine may have to remember. */
const REPEATS_MAX = 4096;

/** One code point of a class, or a group, and how often. */
interface Element {
  readonly pattern: RegExp;
  readonly isOptional: boolean;
  readonly isSingle: boolean;
  readonly isEndless: boolean;
}

/** Gives the end of the match at a place, or -1: greedy and in the order of the alternatives, in constant space. */
export class RunMatcher {
  readonly #alternatives: readonly (readonly Element[])[];

  /** @param source alternatives of classes with greedy quantifiers, and of groups without groups in them. */
  constructor(source: string) {
    this.#alternatives = alternativesOf(source);
  }

  end(text: string, at: number): number {
    for (const elements of this.#alternatives) {
      const end = matchFrom(elements, 0, text, at);
      if (end >= 0) return end;
    }
    return -1;
  }
}

function matchFrom(elements: readonly Element[], index: number, text: string, at: number): number {
  const element = elements[index];
  if (element === undefined) return at;
  let end = runEnd(element, text, at);
  if (end < 0 && !element.isOptional) return -1;
  const floor = element.isOptional ? at : firstEnd(element, text, at);
  end = Math.max(end, floor);
  for (;;) {
    const matched = matchFrom(elements, index + 1, text, end);
    if (matched >= 0 || end <= floor) return matched;
    end = element.isSingle ? floor : before(text, end);
  }
}

/** -1 where not even one is there. */
function runEnd({ pattern, isEndless }: Element, text: string, at: number): number {
  let end = -1;
  pattern.lastIndex = at;
  while (pattern.test(text)) {
    end = pattern.lastIndex;
    if (!isEndless) break;
  }
  return end;
}

function firstEnd({ isSingle, pattern }: Element, text: string, at: number): number {
  if (!isSingle) return at + ((text.codePointAt(at) ?? 0) > 0xff_ff ? 2 : 1);
  pattern.lastIndex = at;
  return pattern.test(text) ? pattern.lastIndex : at;
}

function before(text: string, at: number): number {
  return at - ((text.codePointAt(at - 2) ?? 0) > 0xff_ff ? 2 : 1);
}

function alternativesOf(source: string): Element[][] {
  const alternatives: Element[][] = [[]];
  for (let at = 0; at < source.length; ) {
    if (source[at] === '|') {
      alternatives.push([]);
      at += 1;
      continue;
    }
    const atomEnd = endOfAtom(source, at);
    const quantifier = /^(?:[?*+]|\{1,\d+\})/.exec(source.slice(atomEnd))?.[0] ?? '';
    alternatives.at(-1)?.push(elementOf(source.slice(at, atomEnd), quantifier));
    at = atomEnd + quantifier.length;
  }
  return alternatives;
}

function elementOf(atom: string, quantifier: string): Element {
  const isEndless = quantifier === '*' || quantifier === '+';
  const repeats = isEndless ? `{1,${REPEATS_MAX}}` : quantifier.replace('?', '');
  return {
    pattern: new RegExp(`(?:${atom})${repeats}`, 'vy'),
    isOptional: quantifier === '?' || quantifier === '*',
    isSingle: quantifier === '' || quantifier === '?',
    isEndless,
  };
}

function endOfAtom(source: string, at: number): number {
  const escaped = /^\\(?:[pP]\{[^}]*\}|.)/.exec(source.slice(at));
  if (escaped !== null) return at + escaped[0].length;
  if (source[at] === '(') return source.indexOf(')', at) + 1;
  let depth = 0;
  let end = at;
  do {
    if (source[end] === '[') depth += 1;
    if (source[end] === ']') depth -= 1;
    end += 1;
  } while (depth > 0);
  return end;
}
