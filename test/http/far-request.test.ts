/**
 * A request on its way to another node that may do anything: what it answers is given as it came or not at all, a connection carries
 * another request only when nothing is left over on it, and what is sent is what the client sent.
 */
import type { Socket } from 'node:net';
import t, { type Test } from 'tap';
import { systemClock } from '../../src/clock.js';
import type { Exchange } from '../../src/http/exchange.js';
import { Forwarder } from '../../src/http/forward.js';
import { route } from '../../src/http/router.js';
import { startServer } from '../../src/http/server.js';
import { limits } from '../../src/limits/index.js';
import { startFront } from '../support/front.js';
import { serveWires } from '../support/http-wires.js';
import { RawClient, request } from '../support/raw-client.js';
import { SimulatedClock } from '../support/simulated-clock.js';
import { SocketClient } from '../support/socket-client.js';
import { until } from '../support/until.js';

const ANSWER = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok';
const CHUNKED = 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n';

/** Another node that writes these bytes for each request, and a server that forwards to it. */
async function startBoth(t: Test, bytes: string, { ends = false, clock = systemClock } = {}) {
  const connections: Socket[] = [];
  const far = await serveWires(t, (socket) => {
    if (!connections.includes(socket)) connections.push(socket);
    if (ends) socket.end(bytes, 'latin1');
    else socket.write(bytes, 'latin1');
  });
  const front = await startFront(t, far.origin, { clock });
  const ask = async (path = '/x', init: RequestInit = {}) => {
    const response = await fetch(front.base + path, init);
    const { status, headers } = response;
    return { status, headers, text: await response.text() };
  };
  return { connections, front, ask };
}

function clientAt(t: Test, port: number): RawClient {
  const client = new RawClient(port);
  t.teardown(() => client.destroy());
  return client;
}

t.test('a connection carries the next request where nothing is left over', async (t) => {
  const kept = {
    plain: ANSWER,
    'another head before it': `HTTP/1.1 100 Continue\r\n\r\n${ANSWER}`,
    chunks: `${CHUNKED}2;a=b\r\nok\r\n0\r\nx-sum: 1\r\n\r\n`,
  };
  const ended = {
    'it says so': 'HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok',
    'another answer behind it': ANSWER + ANSWER,
    'a byte behind it': `${ANSWER}\n`,
  };
  for (const [count, cases] of [
    [1, kept],
    [3, ended],
  ] as const) {
    for (const [name, bytes] of Object.entries(cases)) {
      const { ask, connections } = await startBoth(t, bytes);
      for (let at = 0; at < 3; at += 1) t.match(await ask(), { status: 200, text: 'ok' }, name);
      t.equal(connections.length, count, name);
    }
  }
});

t.test('an answer without a body leaves nothing over', async (t) => {
  const { ask, connections } = await startBoth(t, 'HTTP/1.1 304 Same\r\ncontent-length: 9\r\n\r\n');
  t.match(await ask(), { status: 304, text: '' });
  t.match(await ask(), { status: 304, text: '' });
  t.equal(connections.length, 1);
  const head = await startBoth(t, 'HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n');
  for (let at = 0; at < 2; at += 1) {
    const { status, headers } = await head.ask('/x', { method: 'HEAD' });
    t.same([status, headers.get('content-length')], [200, '9']);
  }
  t.equal(head.connections.length, 1);
});

t.test('an answer whose end is that of its connection is whole', async (t) => {
  const { ask } = await startBoth(t, 'HTTP/1.1 200 OK\r\n\r\nto the end', { ends: true });
  t.match(await ask(), { status: 200, text: 'to the end' });
});

t.test('its headers are given in their own letters', async (t) => {
  const { ask } = await startBoth(
    t,
    `HTTP/1.1 200 OK\r\nX-A: b\r\nx-a:\tc \r\nx-e: \xc3\xa0\r\n${ANSWER.slice(17)}`,
  );
  const { headers } = await ask();
  t.equal(headers.get('x-a'), 'b, c');
  t.equal(headers.get('x-e'), '\xc3\xa0');
});

t.test('what comes on a connection that rests is nobody’s answer', async (t) => {
  const { ask, connections } = await startBoth(t, ANSWER);
  await ask();
  connections[0]?.write('HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil');
  await until(() => connections[0]?.destroyed === true);
  t.match(await ask(), { status: 200, text: 'ok' });
});

t.test('one that the other node ends while it rests is not used', async (t) => {
  const { ask, connections } = await startBoth(t, ANSWER);
  await ask();
  connections[0]?.end();
  await until(() => connections[0]?.destroyed === true);
  t.match(await ask(), { status: 200, text: 'ok' });
  t.equal(connections.length, 2);
});

t.test('one that has rested ends before the other node ends it', async (t) => {
  const clock = new SimulatedClock();
  const { ask, connections } = await startBoth(t, ANSWER, { clock });
  await ask();
  await clock.advance(limits.forwardIdleMs - 1);
  await ask();
  t.equal(connections.length, 1);
  await clock.advance(limits.forwardIdleMs);
  await until(() => connections[0]?.destroyed === true);
  await ask();
  t.equal(connections.length, 2);
  t.ok(clock.timerCount > 0);
  await clock.advance(2 * limits.forwardIdleMs);
  await until(() => connections[1]?.destroyed === true);
  t.equal(clock.timerCount, 0, 'then nobody looks any more');
});

t.test('what is no whole answer is a 503 to come back for', async (t) => {
  const bad = {
    nothing: '',
    'another protocol': 'SSH-2.0-OpenSSH_9.2\r\n\r\n',
    'a change of the protocol': 'HTTP/1.1 101 Switching\r\nupgrade: x\r\n\r\n',
    'a head that is cut': 'HTTP/1.1 200 OK\r\ncontent-le',
    'a small body that is cut': 'HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhel',
    'two lengths': 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nok',
    'an endless head': `HTTP/1.1 200 OK\r\n${'x-a: b\r\n'.repeat(limits.forwardAnswerHeadBytesMax)}`,
  };
  for (const [name, bytes] of Object.entries(bad)) {
    const { ask, front, connections } = await startBoth(t, bytes, { ends: true });
    const { status, headers, text } = await ask('/x', { method: 'POST', body: 'hello' });
    t.equal(status, 503, name);
    t.ok(headers.get('retry-after'), name);
    t.match(text, /did not answer"/, 'a client is not told why');
    t.match(front.lines, [/^the node at http:.* did not answer: ./], name);
    t.ok(await until(() => connections.every(({ destroyed }) => destroyed)), name);
  }
});

t.test('a stream that is cut or goes wrong is cut', async (t) => {
  for (const rest of ['', '5\r\nhel', '5\r\nhelloo\r\n0\r\n\r\n', 'g\r\nhello\r\n', '0\r\n']) {
    const { front, connections } = await startBoth(t, `${CHUNKED}5\r\nfirst\r\n`);
    const client = clientAt(t, front.port).send(request('GET /x'));
    t.match(await client.answer('first'), /^HTTP\/1\.1 200/);
    connections[0]?.end(rest);
    t.ok(await client.untilClosed(), JSON.stringify(rest));
    t.notMatch(client.text, /\r\n0\r\n\r\n$/, 'it has no end');
  }
  const { ask } = await startBoth(t, `${CHUNKED}5\r\nhelloo\r\n0\r\n\r\n`);
  t.equal((await ask()).status, 503, 'nothing of it is given where it is wrong from the start');
});

/** Another node that does with what comes as it is told, before a request is whole. */
async function startEager(t: Test, act: (socket: Socket, text: string) => void) {
  const sockets: Socket[] = [];
  const far = await serveWires(t, () => {});
  far.server.on('connection', (socket: Socket) => {
    sockets.push(socket);
    socket.on('data', (bytes) => act(socket, bytes.toString('latin1')));
  });
  return { sockets, front: await startFront(t, far.origin) };
}

t.test('a body that is late does not keep the head', async (t) => {
  const refusal = 'HTTP/1.1 401 No\r\ncontent-length: 2\r\n\r\nno';
  const { sockets, front } = await startEager(t, (socket) => socket.write(refusal));
  const client = clientAt(t, front.port).send(request('POST /x', ['Content-Length: 10']));
  t.match(await client.answer('no'), /^HTTP\/1\.1 401/, 'it is answered before the body comes');
  t.ok(
    await until(() => sockets[0]?.destroyed === true),
    'the rest is not sent as the next request',
  );
  client.send('0123456789').send(request('POST /x', ['Content-Length: 2'], 'hi'));
  t.ok(await client.until(({ text }) => text.split('HTTP/1.1 401').length === 3));
  t.equal(sockets.length, 2);
});

t.test('a small body goes with its head', async (t) => {
  const seen: string[] = [];
  const { front } = await startEager(t, (socket, text) => {
    seen.push(text);
    socket.write(ANSWER);
  });
  const client = clientAt(t, front.port);
  await client.send(request('POST /x?a=b', ['Content-Length: 2'], 'hi')).answer('ok');
  t.match(seen, [/^POST \/x\?a=b HTTP\/1\.1\r\nhost: test\r\ncontent-length: 2\r\n.*\r\n\r\nhi$/s]);
  const chunks = request('POST /x', ['Transfer-Encoding: chunked'], '5\r\nhello\r\n0\r\n\r\n');
  await client.send(chunks).until(({ text }) => text.split(ANSWER.slice(-6)).length === 3);
  const body = seen.slice(1).join('').split('\r\n\r\n').slice(1).join('\r\n\r\n');
  t.equal(body, '5\r\nhello\r\n0\r\n\r\n');
});

t.test('a message of a WebSocket arrives as a request of its length', async (t) => {
  const seen: string[] = [];
  const far = await serveWires(t, (socket, text) => {
    seen.push(text);
    socket.write(ANSWER.replace(/ok$/, '{}'));
  });
  const forwarder = new Forwarder({ clock: systemClock, log: () => {} });
  forwarder.origin = far.origin;
  const instead = ({ method }: { method: string }) =>
    method === 'POST' ? (exchange: Exchange) => forwarder.forward(exchange) : null;
  const row = route('POST', '/turns', () => {});
  const socket = (asker: { note: { account: string | null } }) => {
    asker.note.account = 'alice';
  };
  const at = { host: '127.0.0.1', port: 0, clock: systemClock, report: () => {}, instead };
  const server = await startServer(Object.assign({ routes: [{ ...row, socket }] }, at));
  t.teardown(async () => {
    forwarder.close();
    await server.close(0);
  });
  const client = await new SocketClient(t, `http://127.0.0.1:${server.port}/turns`, {}).opened();
  client.send('hello');
  await until(() => seen.length > 0);
  t.match(seen, [/^POST \/turns HTTP\/1\.1\r\n.*\r\ncontent-length: 5\r\n\r\nhello$/s]);
});
