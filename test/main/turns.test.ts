/**
 * The turns of a node whose records several nodes reach: what it does when another one took them, and when it cannot end what
 * worked on them.
 */
import t, { type Test } from 'tap';
import { ApiError } from '../../src/errors.js';
import { route } from '../../src/http/router.js';
import { startServer } from '../../src/http/server.js';
import { limits } from '../../src/limits/index.js';
import type { Context } from '../../src/main/context.js';
import { Opened } from '../../src/main/opened.js';
import { Turns } from '../../src/main/turns.js';
import { onlyShard } from '../../src/rules/shards.js';
import type { PostgresStore } from '../../src/store/postgres-store.js';
import { SimulatedClock } from '../support/simulated-clock.js';
import { until } from '../support/until.js';

const gone = new ApiError('unavailable', { error: 'gone' });
const named = (name: string) => [route('GET', '/name', (exchange) => exchange.reply(200, name))];

async function openTurns(t: Test, endShard: () => Promise<void>) {
  const clock = new SimulatedClock();
  const server = { clock, host: '127.0.0.1', port: 0, report: () => {} };
  const listening = await startServer({ ...server, routes: named('stands by') });
  t.teardown(() => listening.close(0));
  const told: string[] = [];
  /** Of each turn. */
  const lose: ((cause: Error) => void)[] = [];
  const config = { limits: { drainMs: 0 } };
  const turns = new Turns({
    context: { clock, config, opened: new Opened() } as unknown as Context,
    port: listening.port,
    serve: (routes) => void listening.serve(routes ?? named('stands by')),
    end: (drainMs) => listening.cut({ ends: () => true, drainMs, error: gone }),
    standing: {
      shard: onlyShard,
      async wait(_port, leaving) {
        leaving.throwIfAborted();
        const lost = new Promise<Error>((resolve) => lose.push(resolve));
        const close = async () => void told.push('records closed');
        return { lost, close } as unknown as PostgresStore;
      },
      isReady: true,
      answers: true,
      copy: null,
      origin: null,
      serves: () => void told.push('serves'),
      standsBy: (why) => void told.push(why),
      instead: () => null,
    },
    async openShard({ opened }) {
      opened.add(null, endShard);
      return named(`turn ${lose.length}`);
    },
  });
  await turns.begin(() => {});
  const name = async () => (await fetch(`http://127.0.0.1:${listening.port}/name`)).text();
  return { clock, turns, told, lose, name };
}

t.test('records that are lost are closed before the next turn', async (t) => {
  const { turns, told, lose, name } = await openTurns(
    t,
    async () => void told.push('shard closed'),
  );
  t.equal(await name(), 'turn 1');
  lose[0]?.(new Error('taken'));
  await until(() => lose.length === 2);
  await until(async () => (await name()) === 'turn 2');
  const end = ['shard closed', 'records closed'];
  t.same(told, ['serves', 'taken: this node does not serve any more', ...end, 'serves']);
  await turns.give();
  t.same(told.slice(5, 8), ['another node gets this share', ...end]);
  await until(async () => (await name()) === 'turn 3', undefined, 'it takes a turn again');
  await turns.close();
  t.same(told.slice(-2), end);
});

t.test('a process whose actors do not end may not go on', async (t) => {
  const { clock, turns, lose, name } = await openTurns(t, () => new Promise(() => {}));
  lose[0]?.(new Error('taken'));
  await until(async () => (await name()) === 'stands by');
  await clock.advance(limits.turnEndMsMax);
  t.match(await turns.lost, /did not end in time/);
  t.equal(await name(), 'stands by', 'and does not serve meanwhile');
});
