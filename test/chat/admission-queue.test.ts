import t from 'tap';
import {
  type AdmissionOptions,
  AdmissionQueue,
  type Entrant,
} from '../../src/chat/admission-queue.js';
import { ApiError } from '../../src/errors.js';
import { limits } from '../../src/limits/index.js';

interface Log {
  readonly begun: string[];
  readonly refused: ApiError[];
}

function world(options: Partial<AdmissionOptions> = {}) {
  const queue = new AdmissionQueue({ places: 1, waitingMax: 100, serving: () => true, ...options });
  const log: Log = { begun: [], refused: [] };
  const turn = (owner: string, work = 1, name = owner, isSeveral = false): Entrant => ({
    owner,
    work,
    isSeveral,
    begin: () => void log.begun.push(name),
    refuse: (error) => void log.refused.push(error),
  });
  const enter = (owner: string, work?: number, name?: string, isSeveral?: boolean) => {
    const one = turn(owner, work, name, isSeveral);
    queue.enter(one);
    return one;
  };
  return { queue, log, enter };
}

t.test('500 of one owner delay the single one of another by one turn', async (t) => {
  const { queue, log, enter } = world({ places: 4, waitingMax: 2048 });
  for (let i = 0; i < 500; i++) enter('alice');
  enter('bob');
  t.equal(log.begun.length, 4);
  for (let i = 0; i < 2; i++) queue.leave(1);
  t.equal(log.begun.indexOf('bob'), 5, 'four ran, alice had one more turn, then bob had one');
});

t.test('owners take turns, each in the order of arrival, and a place is never idle', async (t) => {
  const { queue, log, enter } = world();
  for (const name of ['a1', 'a2', 'a3']) enter('alice', 1, name);
  for (const name of ['b1', 'b2']) enter('bob', 1, name);
  enter('carol', 1, 'c1');
  while (log.begun.length < 6) queue.leave(1);
  t.same(log.begun, ['a1', 'a2', 'b1', 'c1', 'a3', 'b2']);
  queue.leave(1);
  enter('dave', 1, 'd1');
  t.equal(log.begun.at(-1), 'd1', 'who finds a free place begins at once');
});

t.test(
  'where the engine goes round, a chat with several answers keeps nobody else out',
  async (t) => {
    const { queue, log, enter } = world({ goesRound: true });
    const several = (owner: string, name: string) => enter(owner, 1, name, true);
    const first = several('alice', 'a1');
    several('alice', 'a2');
    t.same(log.begun, ['a1'], 'its owner waits');
    const other = enter('bob', 1, 'b1');
    enter('bob', 1, 'b2');
    enter('carol', 1, 'c1');
    t.same(log.begun, ['a1', 'b1'], 'one other is with it');
    queue.leave(1, other);
    t.same(log.begun, ['a1', 'b1', 'b2'], 'in turn');
    queue.leave(1, first);
    t.equal(log.begun.length, 3, 'the place belongs to the one that is left');
    queue.leave(1);
    t.same(log.begun.slice(3), ['a2', 'c1'], 'and again');
  },
);

t.test('an engine that does not has as many as it has places', async (t) => {
  const { log, enter } = world({ places: 2 });
  enter('alice', 1, 'a1', true);
  enter('alice', 1, 'a2', true);
  enter('bob');
  t.same(log.begun, ['a1', 'a2']);
});

t.test('at most as many go beyond the places as there are places', async (t) => {
  const { log, enter } = world({ places: 2, goesRound: true });
  for (const owner of ['alice', 'bob', 'carol', 'dave', 'erin', 'frank'])
    enter(owner, 1, owner, true);
  t.same(log.begun, ['alice', 'bob', 'carol', 'dave']);
});

t.test('a chat that leaves while waiting never begins, and frees its room', async (t) => {
  const { queue, log, enter } = world();
  enter('alice');
  const gone = enter('bob', 7, 'gone');
  t.equal(queue.waiting.work, 7);
  t.ok(queue.drop(gone));
  t.notOk(queue.drop(gone));
  t.same(queue.waiting, { count: 0, work: 0 });
  queue.leave(1);
  t.same(log.begun, ['alice']);
});

t.test('one owner fills half of the places to wait, all together the whole', async (t) => {
  const { log, enter } = world({ waitingMax: 10 });
  for (let i = 0; i < 20; i++) enter('alice');
  t.equal(log.refused.length, 20 - 1 - 5, 'one runs, five wait');
  for (let i = 0; i < 3; i++) enter('bob');
  for (let i = 0; i < 3; i++) enter('carol');
  t.equal(log.refused.length, 14 + 1);
  const [error] = log.refused;
  t.ok(error instanceof ApiError);
  t.equal(error?.row, 'overloaded');
});

t.test('two owners who fill the queue do not keep a third one out', async (t) => {
  const { queue, log, enter } = world({ waitingMax: 10 });
  for (let i = 0; i < 6; i++) enter('alice', 1, `a${i}`);
  for (let i = 0; i < 5; i++) enter('bob', 1, `b${i}`);
  t.equal(log.refused.length, 0);
  t.equal(queue.waiting.count, 10);
  for (let i = 0; i < 5; i++) enter('carol', 1, `c${i}`);
  t.equal(queue.waiting.count, 10, 'the bound stays');
  t.equal(log.refused.length, 5);
  for (let i = 0; i < 10; i++) queue.leave(1);
  const of = (owner: string) => log.begun.filter((name) => name.startsWith(owner));
  t.same(of('c'), ['c0', 'c1', 'c2'], 'each has about a third');
  t.same(of('a').slice(1), ['a1', 'a2', 'a3'], 'the newest gave way');
});

t.test('the only chat of an owner gives way to nobody', async (t) => {
  const { log, enter } = world({ workMax: 1000 });
  enter('alice', 1);
  enter('alice', 900);
  enter('bob', 200);
  t.equal(log.refused.length, 1);
  enter('carol', 50);
  enter('carol', 50);
  t.equal(log.refused.length, 1);
  enter('dave', 40);
  t.equal(log.refused.length, 2, 'carol has two, and the newer one gives way');
});

t.test('estimated work is bounded, but a lone chat may have any', async (t) => {
  const { log, enter } = world({ workMax: 1000 });
  enter('alice', 5000);
  enter('alice', 5000);
  t.equal(log.refused.length, 0, 'nothing waits but this');
  enter('bob', 1);
  t.equal(log.refused.length, 1, 'all that may wait is more than there');
  const other = world({ workMax: 1000 });
  for (let i = 0; i < 6; i++) other.enter('alice', 100);
  t.equal(other.log.refused.length, 0);
  other.enter('alice', 100);
  t.equal(other.log.refused.length, 1, 'half of it is one owner’s');
  other.enter('bob', 400);
  t.equal(other.log.refused.length, 1);
});

t.test('the time after which to come back follows what chats take', async (t) => {
  const retryAfter = ({ log }: { log: Log }) => log.refused.at(-1)?.extra.retryAfterMs;
  const bounds = { waitingMax: 4, places: 2 };
  const fresh = world(bounds);
  for (let i = 0; i < 5; i++) fresh.enter('alice');
  t.equal(retryAfter(fresh), limits.queueRetryMsMin, 'nothing is known yet');
  const { queue, log, enter } = world(bounds);
  for (let i = 0; i < 4; i++) enter('alice');
  queue.leave(20_000);
  queue.leave(20_000);
  t.equal(queue.waiting.count, 0);
  for (let i = 0; i < 3; i++) enter('alice');
  t.equal(retryAfter({ log }), 10_000, 'one of two places is free after half of the time');
  enter('bob');
  enter('alice');
  t.equal(retryAfter({ log }), 20_000, 'every second place is for bob');
  queue.leave(1e9);
  for (let i = 0; i < 3; i++) enter('alice');
  t.equal(retryAfter({ log }), limits.queueRetryMsMax);
});

t.test('what waits is not thrown at an engine that is gone', async (t) => {
  let serving = true;
  const { queue, log, enter } = world({ serving: () => serving });
  for (let i = 0; i < 3; i++) enter('alice');
  serving = false;
  queue.leave(null);
  t.equal(log.begun.length, 1);
  serving = true;
  queue.pump();
  t.equal(log.begun.length, 2);
  serving = false;
  queue.leave(null);
  queue.refuseAll(new ApiError('unavailable', { error: 'gone' }));
  t.same(
    log.refused.map(({ row }) => row),
    ['unavailable'],
  );
  t.same(queue.waiting, { count: 0, work: 0 });
});

t.test('the background has the places that nobody wants, and gives them back', async (t) => {
  const { queue, log, enter } = world({ places: 2 });
  const preempted: string[] = [];
  const behind = (name: string): Entrant => ({
    owner: 'night',
    work: 1,
    isBackground: true,
    begin: () => void log.begun.push(name),
    preempt: () => void preempted.push(name),
    refuse: (error) => void log.refused.push(error),
  });
  const batch = ['n1', 'n2', 'n3'].map(behind);
  for (const one of batch) queue.enter(one);
  t.same(log.begun, ['n1', 'n2']);
  t.same(queue.waiting, { count: 0, work: 0 }, 'nobody waits behind it');
  enter('alice', 1, 'a1');
  t.same(preempted, ['n2'], 'the newest makes room');
  enter('alice', 1, 'a2');
  enter('alice', 1, 'a3');
  t.same(preempted, ['n2', 'n1'], 'each of them once');
  queue.leave(null, batch[1]);
  queue.leave(null, batch[0]);
  t.same(log.begun.slice(2), ['a1', 'a2']);
  queue.leave(5);
  t.same(log.begun.slice(4), ['a3'], 'those that somebody waits for come first');
  queue.leave(5);
  t.same(log.begun.slice(5), ['n3']);
  t.ok(queue.drop(behind('none')) === false);
  const last = behind('n4');
  queue.enter(last);
  queue.enter(behind('n5'));
  t.ok(queue.drop(behind('n6')) === false);
  queue.refuseAll(new ApiError('unavailable', { error: 'x' }));
  t.equal(log.refused.length, 2, 'also those of the background');
});

t.test('owners take turns in the background, too', async (t) => {
  const { queue, log } = world({ places: 1 });
  const behind = (owner: string, name: string): Entrant => ({
    owner,
    work: 1,
    isBackground: true,
    begin: () => void log.begun.push(name),
    refuse: (error) => void log.refused.push(error),
  });
  for (const at of [1, 2, 3, 4]) queue.enter(behind('alice', `a${at}`));
  const left = behind('bob', 'b0');
  queue.enter(left);
  queue.enter(behind('bob', 'b1'));
  t.ok(queue.drop(left));
  for (let at = 0; at < 4; at += 1) queue.leave(null);
  t.same(log.begun, ['a1', 'a2', 'b1', 'a3', 'a4']);
});

t.test('readers who take nothing make room for the chats of others, one for each', async (t) => {
  const { queue, log, enter } = world({ places: 3 });
  const cut: string[] = [];
  const stalled = (chat: Entrant, name: string) =>
    queue.stalled({ chat, cut: () => void cut.push(name) });
  const [c1, a1, a2] = [enter('carol'), enter('alice'), enter('alice')];
  stalled(c1, 'c1');
  const readsOn = stalled(a1, 'a1');
  stalled(a2, 'a2');
  enter('alice', 1, 'a3');
  t.same(cut, ['c1'], 'not of its own account');
  enter('bob');
  enter('bob');
  t.same(
    cut,
    ['c1', 'a1'],
    'of the account with the most: one place is on the way, two are wanted',
  );
  readsOn();
  queue.leave(null, c1);
  t.same(cut, ['c1', 'a1', 'a2'], 'it went to a chat of the account itself');
  queue.leave(null, a1);
  queue.leave(null, a2);
  t.same(log.begun.slice(3), ['a3', 'bob', 'bob']);
  t.same(cut, ['c1', 'a1', 'a2']);
});

t.test('a place that goes to the owner of the cut reader is taken once more', async (t) => {
  const { queue, log, enter } = world({ places: 2 });
  const cut: string[] = [];
  const [a1, a2] = ['a1', 'a2', 'a3', 'a4'].map((name) => enter('alice', 1, name));
  for (const [name, chat] of Object.entries({ a1, a2 }))
    if (chat) queue.stalled({ chat, cut: () => void cut.push(name) });
  t.same(cut, [], 'nobody else waits');
  enter('bob');
  t.same(cut, ['a1']);
  queue.leave(null, a1);
  t.same(log.begun, ['a1', 'a2', 'a3']);
  t.same(cut, ['a1', 'a2']);
  queue.leave(null, a2);
  t.equal(log.begun.at(-1), 'bob');
});

t.test('a chat that ends by itself is not the place that a cut one gives', async (t) => {
  const { queue, log, enter } = world({ places: 3 });
  const cut: string[] = [];
  const [a1, a2, own] = [enter('alice'), enter('alice'), enter('carol')];
  for (const [name, chat] of Object.entries({ a1, a2 }))
    queue.stalled({ chat, cut: () => void cut.push(name) });
  enter('bob', 1, 'b1');
  t.same(cut, ['a1']);
  queue.leave(1, own);
  t.equal(log.begun.at(-1), 'b1');
  enter('bob', 1, 'b2');
  t.same(cut, ['a1'], 'the place of the first is still on the way');
  queue.leave(null, a1);
  t.equal(log.begun.at(-1), 'b2');
});

t.test('who stalls while another waits is cut at once', async (t) => {
  const { queue, enter } = world();
  let cuts = 0;
  const cut = () => {
    cuts += 1;
  };
  const chat = enter('alice');
  const stall = () => queue.stalled({ chat, cut });
  stall()();
  const waiting = enter('bob');
  t.equal(cuts, 0, 'it read on before');
  stall();
  t.equal(cuts, 1);
  stall();
  t.equal(cuts, 1, 'its place is on the way');
  queue.drop(waiting);
});

t.test('no reader is cut for an engine that is gone', async (t) => {
  const { queue, enter } = world({ places: 0, serving: () => false });
  enter('bob');
  queue.stalled({ chat: { owner: 'alice' }, cut: () => t.fail('it would help nobody') });
});
