/** Owns the proof that a reply that nobody reads counts against its account until it is read or its reader is gone. */
import { connect, type Socket } from 'node:net';
import t, { type Test } from 'tap';
import { limits } from '../../src/limits/index.js';
import { aliceKey, bobKey, openService } from '../support/service.js';
import { until } from '../support/until.js';

const MIB = 2 ** 20;
const service = await openService(t);
const port = Number(new URL(service.url).port);

/** Asks for a page of caches and reads the first bytes of the answer, no more. */
function slowReader(t: Test): { readonly socket: Socket; readonly status: () => string } {
  const socket = connect(port, '127.0.0.1');
  t.teardown(() => socket.destroy());
  let head = '';
  socket.once('data', (bytes: Buffer) => {
    head = bytes.toString('latin1');
    socket.pause();
  });
  const lines = [
    'GET /v1/caching?limit=100 HTTP/1.1',
    'Host: x',
    `Authorization: Bearer ${aliceKey}`,
  ];
  socket.write(`${lines.join('\r\n')}\r\n\r\n`);
  return { socket, status: () => head.slice(9, 12) };
}

t.test('slow readers of a large list', async (t) => {
  const message = { role: 'user', content: 'hi', note: 'x'.repeat(7 * MIB) };
  for (let at = 0; at < 2; at += 1) {
    const made = await service.call('POST', '/caching', { model: 'svc-v1', messages: [message] });
    t.equal(made.status, 200);
    await made.body?.cancel();
  }
  const page = async (key = aliceKey) => {
    const headers = { authorization: `Bearer ${key}` };
    const answer = await service.call('GET', '/caching?limit=100', undefined, headers);
    await answer.arrayBuffer();
    return answer.status;
  };
  t.equal(await page(), 200);
  const readers = [];
  const readersMax = limits.bodyBytesHeldOwnerMax / (14 * MIB) + 1;
  while (readers.length < readersMax) {
    const reader = slowReader(t);
    t.ok(await until(() => reader.status()), 'an answer');
    readers.push(reader);
  }
  const statuses = readers.map(({ status }) => status());
  t.equal(statuses[0], '200');
  t.equal(statuses.at(-1), '429', `${statuses}`);
  t.equal(await page(), 429, 'also for who reads');
  t.equal(await page(bobKey), 200, 'nobody else has to wait');
  for (const { socket } of readers) socket.destroy();
  t.ok(await until(async () => (await page()) === 200), 'all is given back');
});
