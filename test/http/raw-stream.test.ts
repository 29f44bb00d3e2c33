import t from 'tap';
import { clientsOf, startEdge } from '../support/edge.js';
import { RawClient, request } from '../support/raw-client.js';
import { until } from '../support/until.js';

const edge = await startEdge();
t.teardown(() => edge.server.close(0));
const { client, alive } = clientsOf(t, edge);

const MIB = 1024 * 1024;
/** Twelve seconds of the library's own clocks are waited for once, beside everything else. */
const slowHeader = startSlowHeader();
const stalled = startStalled();

t.test('a client that leaves is noticed at once', async (t) => {
  edge.events.length = 0;
  const inBody = client().send(request('POST /gone-in-body', ['Content-Length: 10'], 'hello'));
  await until(() => edge.server.activeCount > 0);
  inBody.destroy();
  t.ok(await until(() => edge.events.includes('ClientGoneError')));
  edge.events.length = 0;
  const inStream = client();
  await inStream.send(request('GET /endless')).answer('first');
  inStream.destroy();
  t.ok(await until(() => edge.events.includes('gone')));
  t.ok(edge.events.includes('write true'), 'late writes are dropped');
  edge.events.length = 0;
  const halfClosed = client();
  await halfClosed.send(request('GET /endless')).answer('first');
  halfClosed.socket.end();
  t.ok(await until(() => edge.events.includes('gone')), 'half-closed counts as gone');
});

t.test('a stream is chunked, ends once, and a broken one does not look whole', async (t) => {
  const stream = client();
  t.match(
    await stream.send(request('GET /stream')).answer('\r\n0\r\n\r\n'),
    /one[\s\S]*two[\s\S]*\r\n0\r\n\r\n$/,
  );
  t.match(stream.text, /content-type: text\/event-stream\r\n/);
  const broken = client().send(request('GET /breaks-in-stream'));
  t.ok(await broken.untilClosed());
  t.notMatch(broken.text, /\r\n0\r\n\r\n$/);
  const head = client();
  const text = await head.send(request('HEAD /stream')).answer();
  t.match(text, /^HTTP\/1\.1 200/);
  t.ok(text.endsWith('\r\n\r\n'));
});

t.test('a stalled reader costs little, hinders nobody, and goes on where it stopped', async (t) => {
  const before = process.memoryUsage().rss;
  const readers = Array.from({ length: 20 }, () => {
    const reader = client();
    reader.keepText = false;
    reader.send(request('GET /flood'));
    reader.socket.pause();
    return reader;
  });
  const allWait = () => until(() => edge.flood.waiting === readers.length);
  t.ok(await allWait(), 'every write said: slow');
  // The system may take a little more from a reader that has just begun to wait.
  await alive(t, 'beside readers that begin to stall');
  await allWait();
  const atStall = edge.flood.bytes;
  for (let i = 0; i < 20; i += 1) await alive(t, 'beside stalled readers');
  t.ok(edge.flood.bytes - atStall < MIB, 'nobody writes on');
  const grownBytes = process.memoryUsage().rss - before;
  t.ok(grownBytes < 64 * MIB, `memory grew by ${Math.round(grownBytes / MIB)} MiB`);
  const [first, ...others] = readers;
  for (const reader of others) reader.destroy();
  first?.socket.resume();
  t.ok(await first?.until((c) => c.bytes > 64 * MIB, 60_000), 'all bytes arrive');
  t.ok(await until(() => edge.server.activeCount === 0), 'nothing is left behind');
});

t.test('what a slow reader left behind arrives even if nothing more is written', async (t) => {
  edge.events.length = 0;
  const reader = client();
  reader.keepText = false;
  reader.send(request('GET /flood-once'));
  reader.socket.pause();
  t.ok(await until(() => edge.events.includes('slow')));
  t.notOk(edge.events.includes('drained'));
  reader.socket.resume();
  t.ok(await reader.until((c) => c.bytes > edge.flood.bytes), 'the rest arrives');
  t.same(edge.events, ['slow', 'drained']);
  reader.destroy();
  t.ok(await until(() => edge.server.activeCount === 0));
});

t.test('a writer that ignores back-pressure loses its connection', async (t) => {
  edge.events.length = 0;
  const reader = client();
  reader.send(request('GET /deaf'));
  reader.socket.pause();
  t.ok(await until(() => edge.events.includes('cut')));
});

t.test('slow headers and readers that never come back are cut', async (t) => {
  t.ok(await slowHeader, 'a head that never ends is cut');
  t.ok(await stalled, 'a reader that stalls for good is cut');
  await alive(t, 'at the end');
});

async function startSlowHeader(): Promise<boolean> {
  const slow = new RawClient(edge.port);
  slow.send('GET /things HTTP/1.1\r\nHost: a\r\nX-Slow: ');
  const drip = setInterval(() => slow.send('a'), 1_000);
  const cut = await slow.untilClosed(60_000);
  clearInterval(drip);
  slow.destroy();
  return cut;
}

async function startStalled(): Promise<boolean> {
  const idle = await startEdge();
  const reader = new RawClient(idle.port);
  reader.keepText = false;
  reader.send(request('GET /flood'));
  reader.socket.pause();
  await until(() => idle.flood.waiting > 0);
  const cut = await until(() => idle.server.activeCount === 0, 60_000);
  reader.destroy();
  await idle.server.close(0);
  return cut;
}
