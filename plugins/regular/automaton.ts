/**
 * Owns automata with one way for each character: their intersection and complement, and what is known of their texts.
 * It must never keep a state from which no text ends.
 */
import { ALL, complement, intersection, type Ranges, union } from './ranges.js';

/** What no automaton here can follow: the second half of a sentence. */
export class AutomatonFault extends Error {}

/** Takes steps of work, and throws when there were too many. */
export type Spend = (steps: number) => void;

export const STATES_MAX = 2_048;

export interface AutomatonState {
  readonly accepts: boolean;
  /** Sets that have no character in common. */
  readonly next: readonly { readonly set: Ranges; readonly to: number }[];
}

/** The first state is the start. No state at all: there is no text. */
export interface Automaton {
  readonly states: readonly AutomatonState[];
}

/** Leaves out states that lead nowhere. */
export function trimmed(states: readonly AutomatonState[]): Automaton {
  const sources = states.map((): number[] => []);
  states.forEach(({ next }, from) => {
    for (const { to } of next) sources[to]?.push(from);
  });
  const useful = new Set(states.flatMap(({ accepts }, at) => (accepts ? [at] : [])));
  for (const state of useful) for (const source of sources[state] ?? []) useful.add(source);
  if (!useful.has(0)) return { states: [] };
  const kept = [...useful].sort((a, b) => a - b);
  const places = new Map(kept.map((state, place) => [state, place]));
  return {
    states: kept.map((state) => {
      const { accepts, next } = states[state] as AutomatonState;
      const moved = next.flatMap(({ set, to }) => {
        const place = places.get(to);
        return place === undefined ? [] : [{ set, to: place }];
      });
      return { accepts, next: moved };
    }),
  };
}

export function intersected(a: Automaton, b: Automaton, spend: Spend): Automaton {
  if (a.states.length === 0 || b.states.length === 0) return { states: [] };
  const names = new Map<number, number>();
  const pairs: [number, number][] = [];
  const nameOf = (left: number, right: number): number => {
    const key = left * b.states.length + right;
    const known = names.get(key);
    if (known !== undefined) return known;
    if (pairs.length >= STATES_MAX) throw new AutomatonFault('needs too many states');
    names.set(key, pairs.length);
    return pairs.push([left, right]) - 1;
  };
  nameOf(0, 0);
  const states: AutomatonState[] = [];
  for (let at = 0; at < pairs.length; at++) {
    const [i, j] = pairs[at] as [number, number];
    const [left, right] = [a.states[i] as AutomatonState, b.states[j] as AutomatonState];
    const next: { set: Ranges; to: number }[] = [];
    for (const one of left.next) {
      for (const other of right.next) {
        spend(one.set.length + other.set.length);
        const set = intersection(one.set, other.set);
        if (set.length > 0) next.push({ set, to: nameOf(one.to, other.to) });
      }
    }
    states.push({ accepts: left.accepts && right.accepts, next });
  }
  return trimmed(states);
}

/** All other texts. */
export function complemented(automaton: Automaton, spend: Spend): Automaton {
  const { states } = automaton;
  const others = states.length;
  const turned = states.map(({ accepts, next }): AutomatonState => {
    spend(1 + next.length);
    const rest = complement(union(...next.map(({ set }) => set)));
    return {
      accepts: !accepts,
      next: rest.length > 0 ? [...next, { set: rest, to: others }] : next,
    };
  });
  return trimmed([...turned, { accepts: true, next: [{ set: ALL, to: others }] }]);
}

export interface Lengths {
  readonly min: number;
  readonly max: number;
}

/** Of its texts, in characters. */
export function lengthsOf({ states }: Automaton): Lengths {
  return { min: shortest(states), max: longest(states) };
}

function shortest(states: readonly AutomatonState[]): number {
  let level = new Set([0]);
  const seen = new Set(level);
  for (let length = 0; level.size > 0; length++) {
    const next = new Set<number>();
    for (const state of level) {
      if (states[state]?.accepts) return length;
      for (const { to } of states[state]?.next ?? []) {
        if (!seen.has(to)) next.add(to);
        seen.add(to);
      }
    }
    level = next;
  }
  return 0;
}

/** Infinite where a state leads back to itself. */
function longest(states: readonly AutomatonState[]): number {
  const waits = states.map(() => 0);
  for (const { next } of states) for (const { to } of next) waits[to] = (waits[to] ?? 0) + 1;
  const lengths = states.map(() => 0);
  const ready = states.flatMap((_, at) => (waits[at] === 0 ? [at] : []));
  let done = 0;
  for (let at = ready.pop(); at !== undefined; at = ready.pop()) {
    done += 1;
    for (const { to } of states[at]?.next ?? []) {
      lengths[to] = Math.max(lengths[to] ?? 0, (lengths[at] ?? 0) + 1);
      waits[to] = (waits[to] ?? 0) - 1;
      if (waits[to] === 0) ready.push(to);
    }
  }
  if (done < states.length) return Number.POSITIVE_INFINITY;
  return Math.max(0, ...lengths);
}

export function accepts({ states }: Automaton, text: string): boolean {
  let state = states[0];
  for (const character of text) {
    const code = character.codePointAt(0) ?? 0;
    const step = state?.next.find(({ set }) =>
      set.some(([from, to]) => from <= code && code <= to),
    );
    state = step && states[step.to];
  }
  return state?.accepts ?? false;
}
