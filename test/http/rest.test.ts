/**
 * How long a connection may rest, and that no request is cut by the clocks of the HTTP library for a body that is whole.
 * Its clocks take 8 to 12 seconds, which are waited for once.
 */
import { EventEmitter, once } from 'node:events';
import { Agent, get, type IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import t from 'tap';
import { route } from '../../src/http/router.js';
import { limits } from '../../src/limits/index.js';
import { clientsOf, serverOf, startEdge } from '../support/edge.js';
import { RawClient, request } from '../support/raw-client.js';
import { until } from '../support/until.js';

const edge = await startEdge();
t.teardown(() => edge.server.close(0));
const { client } = clientsOf(t, edge);

const STAGGERED = 20;
const STAGGER_MS = 200;
/** More than the most that a client may hear of its answer later than the server sent it. */
const MARGIN_MS = 2_000;

const leastRest = startLeastRest();
const hinted = startHinted();
const wholeBody = startWholeBody();

t.test('a connection rests longer than its client is told', async (t) => {
  const restedMs = await leastRest;
  t.ok(restedMs >= limits.connectionRestS * 1_000 + MARGIN_MS, `${restedMs} ms`);
});

t.test('a client that reads how long it may rest closes first', async (t) => {
  t.equal(await hinted, 'client');
});

t.test('every answer whose connection goes on says how long it may rest', async (t) => {
  const rests = /^keep-alive: timeout=5\r$/m;
  const goOn = [
    'GET /things',
    'GET /later',
    'GET /empty',
    'GET /nope',
    'GET /stream',
    'HEAD /things',
  ];
  for (const line of goOn) t.match(await client().send(request(line)).answer(), rests, line);
  const chunked = request('POST /echo', ['Transfer-Encoding: chunked'], '1\r\na\r\n0\r\n\r\n');
  const cut = await client().send(chunked).answer();
  t.match(cut, /^connection: close\r$/im);
  t.notMatch(cut, rests);
});

t.test('a whole body in many chunks: its request takes as long as it takes', async (t) => {
  t.match(await wholeBody, /^HTTP\/1\.1 200 /);
});

/** The shortest of connections that begin to rest at different times of the library's tick. */
async function startLeastRest(): Promise<number> {
  const each = Array.from({ length: STAGGERED }, async (_, at) => {
    await new Promise((resolve) => setTimeout(resolve, at * STAGGER_MS));
    return await restMs(edge.port);
  });
  return Math.min(...(await Promise.all(each)));
}

async function restMs(port: number): Promise<number> {
  const resting = new RawClient(port);
  await resting.send(request('GET /things')).answer();
  const beganMs = performance.now();
  if (!(await resting.untilClosed(60_000))) throw new Error('it was never closed');
  return performance.now() - beganMs;
}

/** @returns who ended a connection that rested; the agent would keep it for a minute. */
async function startHinted(): Promise<'client' | 'server'> {
  const agent = new Agent({ keepAlive: true, timeout: 60_000 });
  const [response] = (await once(get(`${edge.base}/things`, { agent }), 'response')) as [
    IncomingMessage,
  ];
  const socket: Socket = response.socket;
  let ended: 'client' | 'server' = 'server';
  socket.once('timeout', () => {
    ended = 'client';
  });
  response.resume();
  await once(socket, 'close');
  return ended;
}

/** What is read piece by piece is held back now and then: here its end comes in the same packet as too much. */
async function startWholeBody(): Promise<string> {
  const steps = new EventEmitter();
  const [isSent, restOver] = [once(steps, 'sent'), once(steps, 'rest is over')];
  const server = await serverOf(
    route('GET', '/things', (exchange) => exchange.replyJson(200, {})),
    route('POST', '/pieces', async (exchange) => {
      await isSent;
      while ((await exchange.nextOfBody()) !== null);
      await restOver;
      if (!exchange.gone) exchange.replyJson(200, {});
    }),
  );
  const chunk = `3e8\r\n${'x'.repeat(1_000)}\r\n`;
  const chunks = Math.ceil((0.75 * limits.bodyAheadBytesMax) / 1_000);
  const asking = new RawClient(server.port);
  asking.send(request('POST /pieces', ['Transfer-Encoding: chunked'], chunk.repeat(chunks)));
  await until(() => server.bodyBytesHeld === chunks * 1_000);
  asking.send(`${chunk.repeat(chunks)}0\r\n\r\n`);
  await until(() => server.bodyBytesHeld === 2 * chunks * 1_000);
  steps.emit('sent');
  // One that begins to rest later is closed: so the clock of the request, if it has one, is over.
  await restMs(server.port);
  steps.emit('rest is over');
  await asking.untilClosed();
  await server.close(0);
  return asking.text;
}
