/**
 * A WebSocket whose user another node serves: both halves open together and end together, and nothing is lost or held between them.
 */
import t, { type Test } from 'tap';
import { systemClock } from '../../src/clock.js';
import { ApiError } from '../../src/errors.js';
import type { Exchange } from '../../src/http/exchange.js';
import { type Asker, route } from '../../src/http/router.js';
import { startServer } from '../../src/http/server.js';
import { limits } from '../../src/limits/index.js';
import { RawClient, request } from '../support/raw-client.js';
import { SocketClient } from '../support/socket-client.js';
import { until } from '../support/until.js';

const DONE = '{"type":"response.completed"}';
/** More than a client's half may hold. */
const LARGE_BYTES = 4 * limits.streamBacklogBytesMax;
const LARGE = 12;
const UPGRADE = [
  ...['Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Version: 13'],
  'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
];

/** The node that serves: `hold` waits, `large` is answered by many large events, all else at once with what was asked. */
async function startFar(t: Test) {
  const held: (() => void)[] = [];
  const seen: string[][] = [];
  const turns = route('POST', '/turns', async (exchange: Exchange) => {
    const body = (await exchange.body()).toString();
    if (body === 'hold') await new Promise<void>((resolve) => held.push(resolve));
    const sink = exchange.openStream(200);
    const event = async (data: string) => {
      if (!sink.write(`event: e\ndata: ${data}\n\n`)) await sink.drained();
    };
    for (let at = 0; body === 'large' && at < LARGE; at += 1)
      await event(JSON.stringify({ type: 'delta', at, text: 'l'.repeat(LARGE_BYTES) }));
    if (body !== 'large') await event(JSON.stringify({ type: 'delta', body }));
    await event(DONE);
    sink.end();
  });
  const socket = (asker: Asker) => {
    seen.push([...asker.headers]);
    if (asker.header('authorization') !== 'Bearer alice') throw new ApiError('wrongKey');
    asker.note.account = 'alice';
  };
  const routes = [{ ...turns, socket }];
  const report = () => {};
  const at = { host: '127.0.0.1', port: 0 };
  const server = await startServer({ clock: systemClock, ...at, routes, report });
  t.teardown(() => server.close(0));
  return { server, held, seen };
}

async function startNear(t: Test, origin: () => string | null) {
  const at = { host: '127.0.0.1', port: 0, routes: [], socketPaths: ['/turns'] };
  const faults: unknown[] = [];
  const server = await startServer({
    clock: systemClock,
    ...at,
    report: (report) => void (report.type === 'fault' && faults.push(report.fault)),
    originOf: origin,
  });
  t.teardown(() => server.close(0));
  const open = (headers: Record<string, string> = { authorization: 'Bearer alice' }) =>
    new SocketClient(t, `http://127.0.0.1:${server.port}/turns?a=b`, headers).opened();
  return { server, open, faults };
}

async function start(t: Test) {
  const far = await startFar(t);
  let port: number | null = far.server.port;
  const near = await startNear(t, () => (port === null ? null : `http://127.0.0.1:${port}`));
  const serves = (other: number | null) => {
    port = other;
  };
  return { far, near, serves };
}

t.test('messages pass both ways, and the end of either half is that of the other', async (t) => {
  const { far, near } = await start(t);
  const client = await near.open();
  client.send('one');
  t.match(await client.turn(), [{ type: 'delta', body: 'one' }, { type: 'response.completed' }]);
  client.send('two');
  t.match(await client.turn(), [{ body: 'two' }, {}]);
  const [headers = []] = far.seen;
  t.equal(headers[headers.indexOf('via') + 1], '1.1 preface');
  t.ok(headers.includes('x-request-id'));
  client.close();
  await until(() => far.server.activeCount === 0);
  const other = await near.open();
  other.send('three');
  t.match(await other.turn(), [{ body: 'three' }, {}], 'both halves are open');
  await far.server.cut({
    ends: () => true,
    drainMs: 0,
    error: new ApiError('unavailable', { error: 'moved' }),
  });
  t.match(await other.untilClosed(), { code: 1001, reason: 'the node does not serve any more' });
});

t.test('a refusal of the node that serves ends the half of the client', async (t) => {
  const { near } = await start(t);
  const refused = await near.open({ authorization: 'Bearer eve' });
  refused.send('one');
  t.match(await refused.turn(), [{ type: 'error', status: 401, error: { type: /./ } }]);
  t.match(await refused.untilClosed(), { code: 1008 });
  await t.rejects(
    near.open({ authorization: 'Bearer alice', via: '1.1 preface' }),
    /was refused/,
    'what was passed on once is not passed on again',
  );
});

t.test('a node that cannot be reached ends it, too', async (t) => {
  const near = await startNear(t, () => 'http://127.0.0.1:1');
  const client = await near.open();
  t.match(await client.untilClosed(), { code: 1001, reason: 'the node that serves is gone' });
});

t.test('a node that ends lets the turn end', async (t) => {
  const { far, near } = await start(t);
  const [idle, busy] = [await near.open(), await near.open()];
  busy.send('hold');
  await until(() => far.held.length === 1);
  const drained = near.server.drain(10_000);
  t.match(await idle.untilClosed(), { code: 1001 });
  t.equal(busy.closed, null);
  far.held[0]?.();
  t.match(await busy.turn(), [{ body: 'hold' }, { type: 'response.completed' }]);
  t.match(await busy.untilClosed(), { code: 1001, reason: 'the service is stopping' });
  await drained;
});

t.test('a node that does not serve any more ends it, though it says nothing', async (t) => {
  const { far, near, serves } = await start(t);
  const busy = await near.open();
  busy.send('hold');
  await until(() => far.held.length === 1);
  near.server.moved();
  busy.send('more');
  const next = await startFar(t);
  serves(next.server.port);
  t.equal(busy.closed, null, 'as long as it serves');
  near.server.moved();
  t.match(await busy.untilClosed(), { code: 1001, reason: 'the node that serves is gone' });
  far.held[0]?.();
  await until(() => far.server.activeCount === 0, undefined, 'its half is gone, too');
  const other = await near.open();
  other.send('one');
  t.match(await other.turn(), [{ body: 'one' }, {}], 'the next one goes to the node that serves');
  serves(null);
  near.server.moved();
  t.match(await other.untilClosed(), { code: 1001 }, 'also while none does');
});

t.test('many large messages arrive whole and in order', async (t) => {
  const { near } = await start(t);
  const client = await near.open();
  client.send('large');
  const events = await client.turn();
  t.equal(events.length, LARGE + 1);
  t.same(
    events.slice(0, -1).map(({ at }) => at),
    Array.from({ length: LARGE }, (_, at) => at),
  );
});

t.test('the head arrives as it was sent', async (t) => {
  const { far, near } = await start(t);
  const asked = async (path: string, lines: readonly string[]) => {
    const client = new RawClient(near.server.port);
    t.teardown(() => client.destroy());
    const all = [...UPGRADE, 'Authorization: Bearer alice', ...lines];
    client.send(request(`GET ${path}`, all));
    await client.until(({ text }) => text.includes('\r\n\r\n'));
    return client;
  };
  const seenOf = async (path: string, lines: readonly string[]) => {
    const before = far.seen.length;
    const client = await asked(path, lines);
    t.match(client.text, /^HTTP\/1\.1 101/, `${path} ${lines.join()}`);
    return await until(() => far.seen[before], undefined, 'the other half is asked for');
  };
  const persons = (await seenOf('/turns', ['X-Person: one', 'X-Person: two'])) ?? [];
  const all = persons.filter((_, at) => persons[at - 1] === 'x-person');
  t.same(all, ['one', 'two'], 'who may be given only once is refused by the node that serves');
  const coded = (await seenOf('/turns', ['Transfer-Encoding: chunked'])) ?? [];
  t.notOk(coded.includes('transfer-encoding'), 'it has no body');
  await seenOf('/turns', ['Sec-WebSocket-Protocol: one word']);
  await seenOf('/turns?a=#b', []);
  const wrong = await asked('/turns', ['X-Person: a\x7fb']);
  t.match(wrong.text, /^HTTP\/1\.1 400/);
  t.same(near.faults, [], 'what a client sends is no fault of the server');
});
