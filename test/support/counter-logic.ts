/**
 * Owns a small kind of actor with every feature that a kind can have: durable and late state, an index, effects, a refusal.
 * It must never be impure, as for every kind of actor.
 */
import type { Decision, Logic } from '../../src/actors/actor.js';
import { invalid } from '../../src/errors.js';
import type { StoreChange } from '../../src/store/store.js';

export interface Counter {
  readonly name: string;
  readonly total: number;
  readonly additions: number;
  /** Additions whose echo is still running. */
  readonly pending: readonly number[];
  readonly notes: number;
  /** In memory only. */
  readonly open: number;
}

export type CounterSaved = Omit<Counter, 'name' | 'open'>;

export type CounterMessage =
  | { readonly type: 'add'; readonly amount: number }
  | { readonly type: 'echoed'; readonly addition: number }
  | { readonly type: 'note' }
  | { readonly type: 'open' | 'close' }
  | { readonly type: 'read' }
  | { readonly type: 'refuse' }
  | { readonly type: 'remove' };

export interface Echo {
  readonly type: 'echo';
  readonly addition: number;
}

export type CounterDecision = Decision<Counter, Counter, Echo>;

export const counterLogic: Logic<Counter, CounterSaved, CounterMessage, Counter, Echo> = {
  key: (name) => ['counter', name],
  restore: (saved, name, before) => ({
    ...(saved ?? { total: 0, additions: 0, pending: [], notes: 0 }),
    ...(before ? { notes: before.notes } : {}),
    name,
    open: before?.open ?? 0,
  }),
  saved: ({ total, additions, pending, notes }) =>
    total < 0 ? null : { total, additions, pending, notes },
  indexChanges: (before, next) => [
    ...(before.total === next.total ? [] : [index('remove', before), index('put', next)]),
  ],
  transition,
  resume: ({ pending }) => pending.map((addition) => ({ type: 'echo', addition })),
  evictable: ({ open }) => open === 0,
};

function transition(state: Counter, message: CounterMessage): CounterDecision {
  switch (message.type) {
    case 'add': {
      const addition = state.additions + 1;
      const pending = [...state.pending, addition];
      const next = { ...state, total: state.total + message.amount, additions: addition, pending };
      return { next, reply: next, save: 'now', effects: [{ type: 'echo', addition }] };
    }
    case 'echoed': {
      const pending = state.pending.filter((addition) => addition !== message.addition);
      if (pending.length === state.pending.length) return answer(state, 'no');
      return answer({ ...state, pending }, 'now');
    }
    case 'note':
      return answer({ ...state, notes: state.notes + 1 }, 'later');
    case 'open':
      return answer({ ...state, open: state.open + 1 }, 'no');
    case 'close':
      return answer({ ...state, open: state.open - 1 }, 'no');
    case 'read':
      return answer(state, 'no');
    case 'refuse':
      throw invalid('the counter refuses');
    case 'remove':
      return answer({ ...state, total: -1 }, 'now');
  }
}

function answer(next: Counter, save: CounterDecision['save']): CounterDecision {
  return { next, reply: next, save, effects: [] };
}

function index(type: 'put' | 'remove', { total, name }: Counter): StoreChange {
  const key = ['total', total, name];
  return type === 'put' ? { type, key, value: Buffer.alloc(0) } : { type, key };
}
