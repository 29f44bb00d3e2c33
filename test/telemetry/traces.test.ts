/**
 * Owns the proof that requests are traced when a collector is named, and that a dead one costs nothing.
 * It must read what a collector gets over a real socket.
 */
import { createServer } from 'node:http';
import t, { type Test } from 'tap';
import { systemRandom } from '../../src/clock.js';
import { limits } from '../../src/limits/index.js';
import type { RequestReport } from '../../src/telemetry/report.js';
import { parentOf, type Span } from '../../src/telemetry/spans.js';
import { Traces } from '../../src/telemetry/traces.js';
import { listen } from '../support/listen.js';
import { events, openService } from '../support/service.js';
import { SimulatedClock } from '../support/simulated-clock.js';
import { until } from '../support/until.js';

interface Exported {
  readonly resourceSpans: readonly {
    readonly resource: { readonly attributes: readonly object[] };
    readonly scopeSpans: readonly { readonly scope: object; readonly spans: readonly Span[] }[];
  }[];
}

/** A collector that keeps what it gets. */
async function collector(t: Test) {
  const bodies: string[] = [];
  const paths: string[] = [];
  const got = { bodies, paths, status: 200 };
  const server = createServer((asked, answer) => {
    const parts: Buffer[] = [];
    asked.on('data', (part: Buffer) => parts.push(part));
    asked.on('end', () => {
      paths.push(`${asked.method} ${asked.url} ${asked.headers['content-type']}`);
      bodies.push(Buffer.concat(parts).toString());
      answer.writeHead(got.status).end('{}');
    });
  });
  const port = await listen(t, server);
  const spans = () =>
    bodies.flatMap((body) =>
      (JSON.parse(body) as Exported).resourceSpans.flatMap(({ scopeSpans }) =>
        scopeSpans.flatMap((scope) => [...scope.spans]),
      ),
    );
  return { got, url: `http://127.0.0.1:${port}`, spans };
}

const traceId = '4bf92f3577b34da6a3ce929d0e0e4736';
const spanId = '00f067aa0ba902b7';
const chat = { model: 'svc-v1-8k', messages: [{ role: 'user', content: 'a private question' }] };

function attributes(span: Span | undefined): Record<string, string> {
  return Object.fromEntries(
    (span?.attributes ?? []).map(({ key, value }) => [
      key,
      'stringValue' in value ? value.stringValue : value.intValue,
    ]),
  );
}

t.test('a chat is a span of the client’s trace, with its phases below', async (t) => {
  const { got, url, spans } = await collector(t);
  const service = await openService(t, { OTEL_EXPORTER_OTLP_ENDPOINT: `${url}/` });
  const traceparent = `00-${traceId}-${spanId}-01`;
  const body = { ...chat, stream: true };
  await events(await service.call('POST', '/chat/completions', body, { traceparent }));
  await (await service.call('GET', '/models/none-of-these')).text();
  await (await fetch(new URL('/health', service.url))).text();
  await service.close();
  // On a slow machine what came first may have been sent before.
  t.same(new Set(got.paths), new Set(['POST /v1/traces application/json']));
  const [root, ...below] = spans().filter((span) => span.traceId === traceId);
  t.equal(root?.name, 'POST /v1/chat/completions');
  t.equal(root?.kind, 2);
  t.equal(root?.parentSpanId, spanId);
  t.match(attributes(root), {
    'http.route': '/v1/chat/completions',
    'http.response.status_code': '200',
    'gen_ai.request.model': 'svc-v1-8k',
    'gen_ai.usage.output_tokens': /^[1-9]\d*$/,
  });
  const names = below.map(({ name }) => name).sort();
  t.same(names, ['cache', 'generate', 'prefill', 'queue', 'tokenize']);
  const [start, end] = [BigInt(root?.startTimeUnixNano ?? 0), BigInt(root?.endTimeUnixNano ?? 0)];
  t.ok(start < end);
  for (const span of below) {
    t.equal(span.parentSpanId, root?.spanId, span.name);
    const [from, to] = [BigInt(span.startTimeUnixNano), BigInt(span.endTimeUnixNano)];
    t.ok(start <= from && from <= to && to <= end, span.name);
  }
  const others = spans().filter((span) => span.traceId !== traceId);
  t.same(
    others.map(({ name }) => name),
    ['GET /v1/models/:id'],
    'what no user asked for is not traced',
  );
  t.notOk('parentSpanId' in (others[0] ?? {}), 'one without a parent begins a trace');
  t.match(others[0]?.traceId, /^[\da-f]{32}$/);
  const ids = spans().map((span) => span.spanId);
  t.equal(new Set(ids).size, ids.length);
  t.notMatch(got.bodies.join(), /private question|key-of-alice|none-of-these|alice/);
});

t.test('without a collector nothing is made', async (t) => {
  const service = await openService(t);
  t.equal((await service.call('GET', '/models')).status, 200);
  t.notMatch(service.log.join(), /traces/);
});

t.test('what a client says of its trace', async (t) => {
  t.same(parentOf(`00-${traceId}-${spanId}-01`), { traceId, spanId, isSampled: true });
  t.same(parentOf(`00-${traceId}-${spanId}-00`), { traceId, spanId, isSampled: false });
  t.same(parentOf(`cc-${traceId}-${spanId}-03-later`), { traceId, spanId, isSampled: true });
  for (const wrong of [
    undefined,
    '',
    'a text of a client',
    `ff-${traceId}-${spanId}-01`,
    `00-${'0'.repeat(32)}-${spanId}-01`,
    `00-${traceId}-${'0'.repeat(16)}-01`,
    `00-${traceId.toUpperCase()}-${spanId}-01`,
    `00-${traceId}-${spanId}`,
    `00-${traceId}-${spanId}-011`,
  ]) {
    t.equal(parentOf(wrong), null, String(wrong));
  }
});

const report: RequestReport = {
  type: 'request',
  requestId: 'r',
  route: { method: 'GET', path: '/v1/models' },
  status: 200,
  durationMs: 1,
  note: { account: 'alice', chat: null, firstContentMs: null, errorType: null },
};

t.test('a trace that its client does not sample is not sent', async (t) => {
  const { url, spans } = await collector(t);
  const clock = new SimulatedClock();
  const log = () => {};
  const traces = new Traces({ endpoint: url, version: '1', clock, newBytes: systemRandom, log });
  traces.take({ ...report, traceparent: `00-${traceId}-${spanId}-00` });
  traces.take({ ...report, traceparent: `00-${traceId}-${spanId}-01` });
  await traces.close();
  t.equal(spans().length, 1);
});

t.test('a dead collector: what waits is bounded, is dropped, and is told of once', async (t) => {
  const { got, url, spans } = await collector(t);
  const clock = new SimulatedClock();
  const lines: string[] = [];
  const log = (line: string) => lines.push(line);
  const traces = new Traces({ endpoint: url, version: '1', clock, newBytes: systemRandom, log });
  got.status = 503;
  for (let round = 1; round <= 3; round += 1) {
    for (let at = 0; at < limits.tracesWaitingMax + 500; at += 1) traces.take(report);
    t.equal(got.bodies.length, round - 1, 'nothing is sent while requests are answered');
    await clock.advance(limits.tracesDelayMs);
    t.ok(await until(() => got.bodies.length === round && clock.timerCount === 0), 'one attempt');
  }
  t.same(lines, ['traces: spans are lost: it answered 503']);
  got.status = 200;
  const before = spans().length;
  traces.take(report);
  await clock.advance(limits.tracesDelayMs);
  t.ok(await until(() => lines.length === 2));
  t.equal(lines[1], 'traces: the collector takes spans again');
  t.equal(before, 3 * limits.tracesBatchMax, 'of the others nothing was kept');
  t.equal(spans().length, before + 1);
  await traces.close();
});
