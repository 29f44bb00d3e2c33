/**
 * Owns automata while they are built, with empty steps and several ways for one character, and their determinisation.
 * It must never go on without paying for its steps: a short expression can have very many states.
 */
import { type Automaton, AutomatonFault, type Spend, STATES_MAX, trimmed } from './automaton.js';
import type { Ranges } from './ranges.js';

interface Edge {
  readonly set: Ranges;
  readonly to: number;
}

export class Nfa {
  readonly edges: Edge[][] = [[], []];
  readonly empty: number[][] = [[], []];
  readonly start = 0;
  readonly end = 1;

  constructor(private readonly spend: Spend) {}

  state(): number {
    this.spend(1);
    this.empty.push([]);
    return this.edges.push([]) - 1;
  }

  edge(from: number, set: Ranges, to: number): void {
    this.spend(1);
    this.edges[from]?.push({ set, to });
  }

  join(from: number, to: number): void {
    this.spend(1);
    this.empty[from]?.push(to);
  }

  /** @returns the new state behind the character. */
  step(from: number, set: Ranges): number {
    const to = this.state();
    this.edge(from, set, to);
    return to;
  }

  /** All states that are reached without a character, sorted. */
  closure(states: readonly number[]): number[] {
    const found = new Set(states);
    for (const state of found) {
      for (const next of this.empty[state] ?? []) found.add(next);
      this.spend(1);
    }
    return [...found].sort((a, b) => a - b);
  }
}

interface State {
  accepts: boolean;
  next: { set: Ranges; to: number }[];
}

export function determinised(nfa: Nfa, spend: Spend): Automaton {
  const names = new Map<string, number>();
  const members: number[][] = [];
  const states: State[] = [];
  const nameOf = (all: readonly number[]): number => {
    const closed = nfa.closure(all);
    const key = closed.join();
    const known = names.get(key);
    if (known !== undefined) return known;
    if (states.length >= STATES_MAX) throw new AutomatonFault('needs too many states');
    names.set(key, states.length);
    members.push(closed);
    return states.push({ accepts: closed.includes(nfa.end), next: [] }) - 1;
  };
  nameOf([nfa.start]);
  for (let at = 0; at < states.length; at++) {
    const edges = (members[at] ?? []).flatMap((state) => nfa.edges[state] ?? []);
    (states[at] as State).next = grouped(edges, nameOf, spend);
  }
  return trimmed(states);
}

/** Parts the characters by where they lead to. */
function grouped(
  edges: readonly Edge[],
  nameOf: (states: readonly number[]) => number,
  spend: Spend,
): { set: Ranges; to: number }[] {
  const changes = new Map<number, [add: number[], remove: number[]]>();
  const changeAt = (code: number) => {
    const change = changes.get(code) ?? [[], []];
    changes.set(code, change);
    return change;
  };
  for (const { set, to } of edges) {
    spend(set.length);
    for (const [from, last] of set) {
      changeAt(from)[0].push(to);
      changeAt(last + 1)[1].push(to);
    }
  }
  const codes = [...changes.keys()].sort((a, b) => a - b);
  const open = new Map<number, number>();
  const byState = new Map<number, [number, number][]>();
  for (const [i, code] of codes.entries()) {
    const [add, remove] = changes.get(code) ?? [[], []];
    for (const to of add) open.set(to, (open.get(to) ?? 0) + 1);
    for (const to of remove) {
      const left = (open.get(to) ?? 0) - 1;
      if (left > 0) open.set(to, left);
      else open.delete(to);
    }
    if (open.size === 0) continue;
    spend(1 + open.size);
    const state = nameOf([...open.keys()]);
    const ranges = byState.get(state) ?? [];
    const last = (codes[i + 1] ?? code + 1) - 1;
    const before = ranges.at(-1);
    if (before?.[1] === code - 1) before[1] = last;
    else ranges.push([code, last]);
    byState.set(state, ranges);
  }
  return [...byState].map(([to, set]) => ({ set, to }));
}
