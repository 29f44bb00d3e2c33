/**
 * Owns the scan of one text: which matches have begun, where, and how much of the text is already clear.
 * It must never go back in the text, or do more for a character than visit each state once.
 */
import { limits } from 'preface/plugin';
import {
  asciiCode,
  asciiKind,
  type CharacterKind,
  fold,
  MARK,
  orderedMarks,
  wordBound,
} from './fold.js';
import { PatternWalk } from './pattern-walk.js';
import { NOTHING, type WordRules } from './rules.js';
import type { TermNode } from './terms.js';

const SPACE = 0x20;
const ASCII_END = 0x80;
/** A letter has few marks; longer runs are not reordered. */
const MARKS_MAX = 32;

export class Scan {
  readonly #rules: WordRules;
  readonly #patterns: PatternWalk | null;
  /** Terms that have begun, the oldest first, and where in the text each did. */
  #nodes: TermNode[] = [];
  #starts: number[] = [];
  #marks: number[] = [];
  /**
   * Where the word began that is being read. A text is never cut inside one: what is shown of it would end with a
   * term that is none in the whole text.
   */
  #wordAt = 0;
  /** The first half of a character whose second is yet to come. */
  #half = '';
  #lastCode = NOTHING.code;
  #lastKind: CharacterKind = NOTHING.kind;
  /** UTF-16 units read. */
  #length = 0;
  #rule: string | null = null;

  constructor(rules: WordRules) {
    this.#rules = rules;
    this.#patterns = rules.patterns.starts.length > 0 ? new PatternWalk(rules.patterns) : null;
  }

  /** What the scan has cost so far: characters read and states of patterns visited. */
  get work(): number {
    return this.#length + (this.#patterns?.visits ?? 0);
  }

  /** The rule that the text breaks, once it is whole. */
  get rule(): string | null {
    return this.#rule;
  }

  /** Nothing before this place can belong to a match any more. */
  get clearLength(): number {
    const begun = Math.min(this.#starts[0] ?? this.#length, this.#patterns?.oldest ?? this.#length);
    const marks = this.#marks.length > 0 ? this.#wordAt : this.#length;
    return Math.min(begun, marks, this.#length);
  }

  push(text: string): void {
    const all = this.#half + text;
    const end = isHalf(all) ? all.length - 1 : all.length;
    this.#half = all.slice(end);
    for (let at = 0; at < end && this.#rule === null; ) {
      const code = all.charCodeAt(at);
      if (code < ASCII_END) {
        this.#readAscii(code, this.#length);
        at += 1;
        this.#length += 1;
      } else {
        const whole = all.codePointAt(at) as number;
        const units = whole > 0xffff ? 2 : 1;
        this.#read(whole, this.#length);
        at += units;
        this.#length += units;
      }
    }
  }

  /** Nothing follows. */
  end(): void {
    if (this.#rule !== null) return;
    if (this.#half !== '') this.#read(this.#half.charCodeAt(0), this.#length);
    this.#flushMarks();
    this.#take(NOTHING.code, NOTHING.kind, this.#length);
  }

  #readAscii(code: number, start: number): void {
    if (this.#marks.length > 0) this.#flushMarks();
    this.#take(asciiCode[code] as number, asciiKind[code] as CharacterKind, start);
  }

  #read(code: number, start: number): void {
    for (const character of fold(code)) {
      if (character.kind !== MARK) {
        this.#flushMarks();
        this.#take(character.code, character.kind, start);
        continue;
      }
      this.#marks.push(character.code);
      if (this.#marks.length === MARKS_MAX) this.#flushMarks();
    }
  }

  #flushMarks(): void {
    if (this.#marks.length === 0) return;
    for (const code of orderedMarks(this.#marks)) this.#take(code, MARK, this.#length);
    this.#marks = [];
  }

  #take(code: number, kind: CharacterKind, start: number): void {
    if (code === SPACE && this.#lastCode === SPACE) return;
    const isBound = wordBound(this.#lastKind, kind);
    this.#wordAt = isBound ? start : Math.max(this.#wordAt, start - limits.filterRuleLengthMax);
    this.#rule ??= this.#takeTerms(code, isBound, start);
    this.#rule ??= this.#takePatterns(code, kind, start);
    this.#lastCode = code;
    // A mark is part of what it stands on.
    if (kind !== MARK) this.#lastKind = kind;
  }

  #takePatterns(code: number, kind: CharacterKind, start: number): string | null {
    const walk = this.#patterns;
    if (walk === null || (walk.oldest === null && !this.#rules.patterns.mayBegin(code)))
      return null;
    return walk.take(code, { before: this.#lastKind, after: kind, start, begun: this.#wordAt });
  }

  /** @returns the rule of a term that ended just before this character. */
  #takeTerms(code: number, isBound: boolean, start: number): string | null {
    const first = isBound ? this.#rules.terms.root.next.get(code) : undefined;
    if (this.#nodes.length === 0) {
      if (first !== undefined) this.#begin(first, start);
      return null;
    }
    let kept = 0;
    for (let at = 0; at < this.#nodes.length; at += 1) {
      const node = this.#nodes[at] as TermNode;
      const begun = this.#starts[at] as number;
      if (isBound && node.rule !== null) return node.rule;
      const next = node.next.get(code);
      if (next === undefined || start - begun >= limits.filterMatchLengthMax) continue;
      this.#nodes[kept] = next;
      this.#starts[kept] = begun;
      kept += 1;
    }
    this.#nodes.length = kept;
    this.#starts.length = kept;
    if (first !== undefined) this.#begin(first, start);
    return null;
  }

  #begin(node: TermNode, start: number): void {
    this.#nodes.push(node);
    this.#starts.push(start);
  }
}

function isHalf(text: string): boolean {
  const last = text.charCodeAt(text.length - 1);
  return last >= 0xd800 && last < 0xdc00;
}
