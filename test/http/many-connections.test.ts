/**
 * Thousands of connections that send nothing, and writers that send next to nothing: what they cost the service, and
 * that others are answered meanwhile. The service is a process of its own, so that its memory is its own.
 */
import { readFileSync } from 'node:fs';
import t from 'tap';
import { RawClient, request } from '../support/raw-client.js';
import { aliceKey } from '../support/service.js';
import { startServiceProcess } from '../support/service-process.js';

t.setTimeout(0);

const IDLE = 5_000;
const BATCH = 250;
const WRITERS = 100;
const KIB = 1024;
const CONNECTION_BYTES_MAX = 32 * KIB;

const service = await startServiceProcess(t, {});
const port = Number(new URL(service.url).port);

/** Of this process, whose connections they are; the service's is the same. */
function openFilesMax(): number {
  const limits = readFileSync('/proc/self/limits', 'utf8');
  return Number(/^Max open files\s+(\d+)/m.exec(limits)?.[1] ?? Number.POSITIVE_INFINITY);
}

function residentBytes(): number {
  const status = readFileSync(`/proc/${service.pid}/status`, 'utf8');
  return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? 0) * KIB;
}

/** Milliseconds of a request on a connection of its own. */
async function askMs(): Promise<number> {
  const beganMs = performance.now();
  const client = new RawClient(port);
  client.send(request('GET /v1/models', [`Authorization: Bearer ${aliceKey}`]));
  const text = await client.answer('"data"', 30_000);
  client.destroy();
  if (!text.startsWith('HTTP/1.1 200 ')) throw new Error(text);
  return performance.now() - beganMs;
}

async function opened(count: number): Promise<RawClient[]> {
  const clients: RawClient[] = [];
  while (clients.length < count) {
    const batch = Array.from({ length: BATCH }, () => new RawClient(port));
    // A limit on open files shows as an error, and the connection as closed.
    await Promise.all(
      batch.map(
        ({ socket }) =>
          new Promise((resolve) => {
            socket.once('connect', resolve).once('close', resolve);
          }),
      ),
    );
    clients.push(...batch);
    if (batch.some(({ closed }) => closed)) break;
  }
  return clients;
}

t.test(`${IDLE} idle connections`, async (t) => {
  await askMs();
  const before = residentBytes();
  const clients = await opened(IDLE);
  const open = clients.filter(({ closed }) => !closed).length;
  const each = Math.max(0, residentBytes() - before) / open;
  const times: number[] = [];
  for (let i = 0; i < 20; i += 1) times.push(await askMs());
  times.sort((a, b) => a - b);
  t.ok(open >= Math.min(IDLE, openFilesMax() - BATCH), `${open} open`);
  t.ok(each < CONNECTION_BYTES_MAX, `${Math.round(each)} bytes each`);
  t.pass(
    `a request meanwhile: ${(times[10] ?? 0).toFixed(1)} ms, at most ${times.at(-1)?.toFixed(1)} ms`,
  );
  for (const client of clients) client.destroy();
  t.ok((await askMs()) > 0, 'and after them');
});

t.test(`${WRITERS} writers of a byte now and then are cut`, async (t) => {
  const beganMs = performance.now();
  const head = [`Authorization: Bearer ${aliceKey}`, 'Content-Length: 1000000'];
  const writers = Array.from({ length: WRITERS }, () => new RawClient(port));
  for (const writer of writers) writer.send(request('POST /v1/chat/completions', head, '{'));
  const dribble = setInterval(() => {
    for (const writer of writers) if (!writer.closed) writer.send(' ');
  }, 500);
  t.teardown(() => clearInterval(dribble));
  t.ok((await askMs()) > 0, 'others are answered');
  const cut = await Promise.all(writers.map((writer) => writer.untilClosed(60_000)));
  clearInterval(dribble);
  t.ok(cut.every(Boolean), `all are gone after ${Math.round(performance.now() - beganMs)} ms`);
  for (const writer of writers) t.notMatch(writer.text, /^HTTP\/1\.1 2/);
  t.ok((await askMs()) > 0, 'and after them');
});
