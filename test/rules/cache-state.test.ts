/**
 * Owns the table of what every state of a cache makes of every message.
 * It must hold a row for each pair: one that is missing fails.
 */
import t from 'tap';
import { ApiError } from '../../src/errors.js';
import { limits } from '../../src/limits/index.js';
import type { CacheExpiry } from '../../src/protocol/caching.js';
import {
  type CacheEffect,
  type CacheMessage,
  type CacheRecord,
  type CacheState,
  cacheTransition,
  dueMs,
  pendingEffects,
} from '../../src/rules/cache-state.js';
import type { PrefixHash } from '../../src/rules/prefix.js';
import { apiError } from '../support/api-error.js';

const NOW_S = 1_900_000_000;
const NOW_MS = NOW_S * 1000;
const HOUR_S = 3600;
const KEEP_MS = limits.cacheKeepMs;
const FAULT = { type: 'invalid_request_error', message: 'broken' };
const hash = 'h' as PrefixHash;

const fresh = {
  id: 'cache-1',
  owner: 'alice',
  family: 'svc-v1',
  hash,
  name: '',
  description: '',
  metadata: [],
  tokens: 10,
  bytes: 20,
  contentFault: null,
};

const pending: CacheRecord = {
  ...fresh,
  status: 'pending',
  generation: 3,
  error: null,
  expiryFault: null,
  createdS: NOW_S - 60,
  expiredAtS: NOW_S + 100,
  expirySetMs: NOW_MS - 60_000,
  hits: 1,
  tokensSaved: 10,
  lastMissReason: null,
  remade: false,
};
const past = { expiredAtS: NOW_S - 1 };

/** Each state a record can be found in; the last ones only differ by what time has done since. */
const states = {
  none: null,
  pending,
  doomed: { ...pending, contentFault: FAULT },
  ready: { ...pending, status: 'ready' },
  'ready, remade': { ...pending, status: 'ready', remade: true },
  error: { ...pending, status: 'error', error: FAULT },
  broken: { ...pending, status: 'error', error: FAULT, contentFault: FAULT },
  inactive: { ...pending, ...past, status: 'inactive' },
  'pending, expired': { ...pending, ...past },
  'ready, expired': { ...pending, ...past, status: 'ready' },
  'inactive, gone': {
    ...pending,
    expiredAtS: NOW_S - 1 - KEEP_MS / 1000,
    expirySetMs: NOW_MS - 2 * KEEP_MS,
    status: 'inactive',
  },
  'ready, gone': {
    ...pending,
    expiredAtS: NOW_S - KEEP_MS / 1000,
    expirySetMs: NOW_MS - 2 * KEEP_MS,
    status: 'ready',
  },
} as const satisfies Readonly<Record<string, CacheState>>;

const NO_USE = { tokensSaved: 0, missReason: null, reset: null };
const reset = { requestMs: NOW_MS - 500, ttlS: 600 };

const MADE = { bytes: 4_000, evaluatedTokens: 40 };

const messages = {
  create: {
    type: 'create',
    cache: { ...fresh, expiry: { type: 'ttl', ttlS: 60 } },
    requestMs: NOW_MS,
  },
  update: { type: 'update', metadata: [['a', 'b']], expiry: { type: 'ttl', ttlS: 60 } },
  'update to the past': { type: 'update', metadata: null, expiry: { type: 'at', expiredAtS: 5 } },
  read: { type: 'read' },
  hit: { type: 'use', use: { ...NO_USE, tokensSaved: 10 } },
  miss: { type: 'use', use: { ...NO_USE, missReason: 'tools differs' } },
  reset: { type: 'use', use: { ...NO_USE, reset } },
  prefilled: { type: 'prefilled', generation: 3, snapshot: MADE },
  'prefilled, stale': { type: 'prefilled', generation: 2, snapshot: MADE },
  failed: { type: 'prefill-failed', generation: 3, error: FAULT },
  'failed, stale': { type: 'prefill-failed', generation: 2, error: FAULT },
  lost: { type: 'snapshot-lost', generation: 3 },
  'lost, stale': { type: 'snapshot-lost', generation: 2 },
  delete: { type: 'delete' },
} as const satisfies Readonly<Record<string, CacheMessage>>;

type StateName = keyof typeof states;
type MessageName = keyof typeof messages;

/**
 * What comes out: the next status (`none` for no cache), how it is saved, and the effects with their generation.
 * `refused`: the message is.
 */
type Row = readonly [next: string, save: 'now' | 'later' | 'no', effects: string];

const SAME_NONE: Row = ['none', 'no', ''];
/** As `none`, but the record has to go. */
const GONE = (effects: string): Row => ['none', 'now', effects];

const table: Readonly<Record<StateName, Readonly<Record<MessageName, Row | 'refused'>>>> = {
  none: {
    ...each(SAME_NONE),
    create: ['pending', 'now', 'prefill 1'],
  },
  pending: {
    ...each(['pending', 'no', '']),
    create: 'refused',
    update: ['pending', 'now', 'prefill 4'],
    'update to the past': ['pending', 'now', 'forget, refuse 4'],
    hit: ['pending', 'later', ''],
    miss: ['pending', 'later', ''],
    reset: ['pending', 'now', ''],
    prefilled: ['ready', 'now', ''],
    failed: ['error', 'now', 'forget'],
    delete: ['none', 'now', 'forget, release 20'],
  },
  doomed: {
    ...each(['pending', 'no', '']),
    create: 'refused',
    update: ['pending', 'now', 'refuse 4'],
    'update to the past': ['pending', 'now', 'refuse 4'],
    hit: ['pending', 'later', ''],
    miss: ['pending', 'later', ''],
    reset: ['pending', 'later', ''],
    prefilled: ['pending', 'no', ''],
    failed: ['error', 'now', ''],
    delete: ['none', 'now', 'release 20'],
  },
  ready: {
    ...each(['ready', 'no', '']),
    create: 'refused',
    update: ['pending', 'now', 'prefill 4'],
    'update to the past': ['pending', 'now', 'forget, refuse 4'],
    hit: ['ready', 'later', ''],
    miss: ['ready', 'later', ''],
    reset: ['ready', 'now', ''],
    lost: ['pending', 'now', 'prefill 4'],
    delete: ['none', 'now', 'forget, release 20'],
  },
  'ready, remade': {
    ...each(['ready', 'no', '']),
    create: 'refused',
    update: ['pending', 'now', 'prefill 4'],
    'update to the past': ['pending', 'now', 'forget, refuse 4'],
    hit: ['ready', 'later', ''],
    miss: ['ready', 'later', ''],
    reset: ['ready', 'now', ''],
    delete: ['none', 'now', 'forget, release 20'],
  },
  error: {
    ...each(['error', 'no', '']),
    create: 'refused',
    update: ['pending', 'now', 'prefill 4'],
    'update to the past': ['pending', 'now', 'refuse 4'],
    hit: ['error', 'later', ''],
    miss: ['error', 'later', ''],
    reset: ['error', 'later', ''],
    delete: ['none', 'now', 'release 20'],
  },
  broken: {
    ...each(['error', 'no', '']),
    create: 'refused',
    update: ['pending', 'now', 'refuse 4'],
    'update to the past': ['pending', 'now', 'refuse 4'],
    hit: ['error', 'later', ''],
    miss: ['error', 'later', ''],
    reset: ['error', 'later', ''],
    delete: ['none', 'now', 'release 20'],
  },
  inactive: {
    ...each(['inactive', 'no', '']),
    create: 'refused',
    update: ['pending', 'now', 'prefill 4'],
    'update to the past': ['pending', 'now', 'refuse 4'],
    hit: ['inactive', 'later', ''],
    miss: ['inactive', 'later', ''],
    reset: ['pending', 'now', 'prefill 4'],
    delete: ['none', 'now', 'release 20'],
  },
  'pending, expired': expired(),
  'ready, expired': expired(),
  'inactive, gone': { ...each(GONE('release 20')), create: ['pending', 'now', 'prefill 1'] },
  'ready, gone': { ...each(GONE('forget, release 20')), create: ['pending', 'now', 'prefill 1'] },
};

/** Expiry comes first, whatever the message. */
function expired(): Readonly<Record<MessageName, Row | 'refused'>> {
  return {
    ...each(['inactive', 'now', 'forget']),
    create: 'refused',
    update: ['pending', 'now', 'prefill 4'],
    'update to the past': ['pending', 'now', 'forget, refuse 4'],
    reset: ['pending', 'now', 'prefill 4'],
    delete: ['none', 'now', 'forget, release 20'],
  };
}

function each(row: Row): Record<MessageName, Row> {
  const names = Object.keys(messages) as MessageName[];
  return Object.fromEntries(names.map((name) => [name, row])) as Record<MessageName, Row>;
}

function effectText(effect: CacheEffect): string {
  if (effect.type === 'release') return `release ${effect.bytes}`;
  return effect.type === 'forget' ? 'forget' : `${effect.type} ${effect.generation}`;
}

for (const [stateName, rows] of Object.entries(table)) {
  t.test(`a cache that is ${stateName}`, async (t) => {
    const state: CacheState = states[stateName as StateName];
    for (const [messageName, row] of Object.entries(rows)) {
      const message: CacheMessage = messages[messageName as MessageName];
      const act = () => cacheTransition(state, message, NOW_MS, KEEP_MS);
      if (row === 'refused') {
        t.throws(act, apiError('server'), messageName);
        continue;
      }
      const { next, save, effects, reply } = act();
      const found = [next?.status ?? 'none', save, effects.map(effectText).join(', ')];
      t.strictSame(found, row, messageName);
      if (save === 'no') t.equal(next, state, `${messageName}: nothing changes`);
      t.equal(
        next?.error === null,
        next ? next.status !== 'error' : false,
        `${messageName}: error`,
      );
      if (message.type !== 'delete') t.equal(reply, next);
    }
  });
}

const step = (state: CacheState, message: CacheMessage, nowMs = NOW_MS) =>
  cacheTransition(state, message, nowMs, KEEP_MS);
const created = (expiry: CacheExpiry, nowMs = NOW_MS): CacheRecord => {
  const { next } = step(
    null,
    { type: 'create', cache: { ...fresh, expiry }, requestMs: nowMs },
    nowMs,
  );
  if (next === null) throw new Error('not created');
  return next;
};

t.test('an update goes through pending also where the time stays in the past', async (t) => {
  const describe: CacheMessage = { type: 'update', metadata: [['b', 'c']], expiry: null };
  for (const name of ['inactive', 'pending, expired', 'ready, expired'] as const) {
    const { next, reply, save, effects } = step(states[name], describe);
    t.match(reply, { status: 'pending', metadata: [['b', 'c']] }, name);
    t.strictSame([save, effects.map(effectText)], ['now', ['prefill 4']], name);
    t.equal(reply, next, name);
    const after = step(next, messages.read);
    t.match(after.next, { status: 'inactive', metadata: [['b', 'c']] }, name);
    t.strictSame(after.effects.map(effectText), ['forget'], 'its tokens count no longer');
  }
  t.equal(step(states['inactive, gone'], describe).reply, null);
});

t.test('the expiry is what was asked for, in whole seconds', async (t) => {
  t.equal(created({ type: 'default' }, NOW_MS + 999).expiredAtS, NOW_S + HOUR_S);
  t.equal(created({ type: 'ttl', ttlS: 5 }).expiredAtS, NOW_S + 5);
  t.equal(created({ type: 'at', expiredAtS: NOW_S + HOUR_S }).expiredAtS, NOW_S + HOUR_S);
  t.throws(
    () => created({ type: 'at', expiredAtS: NOW_S + HOUR_S + 1 }),
    apiError('invalidRequest'),
  );
  t.equal(created({ type: 'at', expiredAtS: NOW_S + 1 }).expiryFault, null);
  for (const expiredAtS of [NOW_S, NOW_S - 1, 1, -5]) {
    const cache = created({ type: 'at', expiredAtS });
    t.match(cache, { status: 'pending', expiryFault: { type: 'invalid_request_error' } });
    const [effect] = pendingEffects(cache);
    t.equal(effect?.type, 'refuse', 'pending is told first, then the error');
  }
  t.throws(
    () =>
      step(pending, { type: 'update', metadata: null, expiry: { type: 'at', expiredAtS: 9e9 } }),
    ApiError,
  );
});

t.test(
  'a live cache ends at the millisecond its expiry says, and is gone a day later',
  async (t) => {
    const ready: CacheRecord = { ...created({ type: 'ttl', ttlS: 60 }), status: 'ready' };
    const endMs = (NOW_S + 60) * 1000;
    t.equal(dueMs(ready, KEEP_MS), endMs);
    t.equal(step(ready, { type: 'read' }, endMs - 1).next, ready);
    const inactive = step(ready, { type: 'read' }, endMs).next;
    t.equal(inactive?.status, 'inactive');
    if (inactive) t.equal(dueMs(inactive, KEEP_MS), endMs + KEEP_MS);
    t.equal(step(inactive, { type: 'read' }, endMs + KEEP_MS - 1).next, inactive);
    t.equal(step(inactive, { type: 'read' }, endMs + KEEP_MS).next, null);
    t.equal(
      step(inactive, { type: 'read' }, NOW_MS).next,
      inactive,
      'a clock set back revives nothing',
    );
  },
);

t.test('a cache that was refused keeps its reason for a day, however old its expiry', async (t) => {
  const state = created({ type: 'at', expiredAtS: 1 });
  const { next } = step(state, { type: 'prefill-failed', generation: 1, error: FAULT });
  t.match(next, { status: 'error', error: FAULT });
  t.equal(step(next, { type: 'read' }, NOW_MS + KEEP_MS - 1).next, next);
  t.equal(step(next, { type: 'read' }, NOW_MS + KEEP_MS).next, null);
});

t.test('PUT replaces metadata, and its expiry is as on creation', async (t) => {
  const { next } = step(
    { ...pending, metadata: [['old', 'x']] },
    { type: 'update', metadata: [['a', 'b']], expiry: { type: 'default' } },
  );
  t.match(next, { metadata: [['a', 'b']], expiredAtS: NOW_S + HOUR_S });
  const kept = step(next, { type: 'update', metadata: null, expiry: { type: 'ttl', ttlS: 9 } });
  t.match(kept.next, { metadata: [['a', 'b']], expiredAtS: NOW_S + 9, generation: 5 });
  const refused = step({ ...pending, expiryFault: FAULT }, messages.update).next;
  t.equal(refused?.expiryFault, null, 'a fault of the old expiry is over');
});

t.test('reset-TTL counts from the request, and from nothing else', async (t) => {
  const use = (requestMs: number, ttlS: number): CacheMessage => ({
    type: 'use',
    use: { ...NO_USE, reset: { requestMs, ttlS } },
  });
  const ready: CacheRecord = { ...pending, status: 'ready' };
  t.equal(step(ready, use(NOW_MS - 30_000, 50)).next?.expiredAtS, NOW_S - 30 + 50, 'shorter too');
  t.equal(step(ready, use(NOW_MS - 30_000, 10)).next?.status, 'inactive', 'over before it ended');
  const late = step(ready, use(NOW_MS - 61_000, 1000));
  t.match(
    late,
    { next: { expiredAtS: ready.expiredAtS }, save: 'later' },
    'older than the last word',
  );
  const back = step({ ...ready, expirySetMs: NOW_MS + 5_000 }, use(NOW_MS, 1000));
  t.equal(
    back.next?.expiredAtS,
    NOW_S + 1000,
    'unless that was said before the clock was set back',
  );
});

t.test('a prefix that got lost is made once more, and again only after a hit', async (t) => {
  const lost = (state: CacheState) =>
    step(state, { type: 'snapshot-lost', generation: state?.generation ?? 0 }).next;
  const made = (state: CacheState) =>
    step(state, { type: 'prefilled', generation: state?.generation ?? 0, snapshot: MADE }).next;
  const remade = made(lost(states.ready));
  t.match(remade, { status: 'ready', generation: 4, remade: true });
  t.equal(lost(remade), remade, 'nothing changes');
  t.match(step(remade, messages.miss).next, { status: 'ready', remade: true });
  const { next: hit } = step(remade, messages.hit);
  t.match(hit, { status: 'ready', remade: false });
  t.match(lost(hit), { status: 'pending', generation: 5, remade: true });
  t.match(step(remade, messages.update).next, { status: 'pending', remade: false });
  const late = step(remade, messages.reset, NOW_MS + 200_000).next;
  t.match(late, { status: 'pending', remade: false }, 'expired, and begun anew');
});

t.test('hits are counted, and the last reason of a miss stays', async (t) => {
  const once = step(pending, messages.miss).next;
  const twice = step(once, messages.hit).next;
  t.match(twice, { hits: 2, tokensSaved: 20, lastMissReason: 'tools differs' });
  t.match(once, { hits: 1, tokensSaved: 10 });
});

t.test('what a restored state waits for', async (t) => {
  t.strictSame(pendingEffects(pending), [{ type: 'prefill', generation: 3 }]);
  t.strictSame(pendingEffects(states.doomed), [{ type: 'refuse', generation: 3, error: FAULT }]);
  for (const name of ['none', 'ready', 'error', 'inactive'] as const) {
    t.strictSame(pendingEffects(states[name]), [], name);
  }
});

t.test('what an attempt took stays known when a later one finds the snapshot intact', async (t) => {
  const pending = step(states.pending, messages.prefilled).next;
  t.match(pending, { status: 'ready', snapshot: MADE });
  const again = step(pending, messages.update).next;
  const intact = { bytes: 4_096, evaluatedTokens: 0 };
  const message = {
    type: 'prefilled',
    generation: again?.generation ?? 0,
    snapshot: intact,
  } as const;
  t.match(step(again, message).next, { snapshot: { bytes: 4_096, evaluatedTokens: 40 } });
});
