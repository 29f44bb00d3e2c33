/**
 * Owns the walk of all patterns along one text at once: their current states, and where each began.
 * It must never hold one state twice, so that a character costs at most one visit of each state.
 */
import { limits } from 'preface/plugin';
import { type CharacterKind, wordEdge } from './fold.js';
import type { PatternState, Patterns } from './pattern.js';

export interface Place {
  readonly before: CharacterKind;
  readonly after: CharacterKind;
  /** Of the character that follows, in UTF-16 units of the text. */
  readonly start: number;
  /** Where a match that begins here starts to be held back. */
  readonly begun: number;
}

export class PatternWalk {
  readonly #patterns: Patterns;
  /** States to go on from, the oldest first, and where in the text each began. */
  #states: number[] = [];
  #starts: number[] = [];
  #nextStates: number[] = [];
  #nextStarts: number[] = [];
  /** When a state was last visited; the turn is counted up for each character. */
  readonly #visited: Uint32Array;
  readonly #taken: Uint32Array;
  #turn = 0;
  /** States visited since the beginning: what the walk has cost. */
  visits = 0;
  readonly #stack: number[] = [];

  constructor(patterns: Patterns) {
    this.#patterns = patterns;
    this.#visited = new Uint32Array(patterns.states.length);
    this.#taken = new Uint32Array(patterns.states.length);
  }

  /** Where the longest begun match began; null where none has. */
  get oldest(): number | null {
    return this.#starts[0] ?? null;
  }

  /** @returns the rule of a match that ended just before this character. */
  take(code: number, place: Place): string | null {
    const begins = this.#patterns.mayBegin(code);
    if (this.#states.length === 0 && !begins) return null;
    this.#nextTurn();
    this.#nextStates = [];
    this.#nextStarts = [];
    for (let at = 0; at < this.#states.length; at += 1) {
      const begun = this.#starts[at] as number;
      if (place.start - begun >= limits.filterMatchLengthMax) continue;
      const rule = this.#follow(this.#states[at] as number, begun, code, place);
      if (rule !== null) return rule;
    }
    // An empty match is refused with the rules, so what begins here cannot also end here.
    if (begins)
      for (const start of this.#patterns.starts) this.#follow(start, place.begun, code, place);
    this.#states = this.#nextStates;
    this.#starts = this.#nextStarts;
    return null;
  }

  #nextTurn(): void {
    this.#turn += 1;
    if (this.#turn < 0xffff_ffff) return;
    this.#turn = 1;
    this.#visited.fill(0);
    this.#taken.fill(0);
  }

  /** Follows the empty transitions to the states that take this character. */
  #follow(from: number, begun: number, code: number, { before, after }: Place): string | null {
    const stack = this.#stack;
    stack.length = 0;
    stack.push(from);
    for (let at = stack.pop(); at !== undefined; at = stack.pop()) {
      // The first to reach a state has the earliest start.
      if (this.#visited[at] === this.#turn) continue;
      this.#visited[at] = this.#turn;
      this.visits += 1;
      const state = this.#patterns.states[at] as PatternState;
      if (state.type === 'end') return state.rule;
      if (state.type === 'split') stack.push(...state.nexts);
      else if (state.type !== 'edge') this.#step(state, begun, code);
      else if (wordEdge(before, after) === state.wanted) stack.push(state.next);
    }
    return null;
  }

  #step(
    state: Extract<PatternState, { code: number } | { set: object }>,
    begun: number,
    code: number,
  ): void {
    const takes = state.type === 'set' ? code >= 0 && state.set.has(code) : state.code === code;
    if (!takes || this.#taken[state.next] === this.#turn) return;
    this.#taken[state.next] = this.#turn;
    this.#nextStates.push(state.next);
    this.#nextStarts.push(begun);
  }
}
