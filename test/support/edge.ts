/**
 * Owns a server with a few routes that behave in every way a handler can, for tests of the HTTP layer.
 * It must never have a route of the real API.
 */
import type { Test } from 'tap';
import { type Clock, systemClock } from '../../src/clock.js';
import { ApiError } from '../../src/errors.js';
import type { Exchange } from '../../src/http/exchange.js';
import { type Route, route } from '../../src/http/router.js';
import { type Server, startServer } from '../../src/http/server.js';
import { limits } from '../../src/limits/index.js';
import { RawClient, request } from './raw-client.js';

export interface EdgeFixture {
  readonly server: Server;
  readonly port: number;
  readonly base: string;
  readonly errors: unknown[];
  /** Events in order: `gone`, `slow`, `drained`. */
  readonly events: string[];
  /** Bytes that `/flood` has written, and how many of its writers wait for their reader now. */
  readonly flood: { bytes: number; waiting: number };
}

export async function startEdge(
  options: { clock?: Clock; corsOrigins?: readonly string[]; bodyBytesHeldMax?: number } = {},
): Promise<EdgeFixture> {
  const errors: unknown[] = [];
  const events: string[] = [];
  const flood = { bytes: 0, waiting: 0 };
  const server = await startServer({
    host: '127.0.0.1',
    port: 0,
    clock: options.clock ?? systemClock,
    corsOrigins: options.corsOrigins ?? [],
    bodyBytesHeldMax: options.bodyBytesHeldMax ?? limits.bodyBytesHeldMax,
    routes: [...plainRoutes(), ...faultRoutes(), ...streamRoutes(events, flood)],
    report: (report) => {
      if (report.type === 'fault') errors.push(report.fault);
    },
  });
  const base = `http://127.0.0.1:${server.port}`;
  return { server, port: server.port, base, errors, events, flood };
}

/** A server of these routes alone, on a free port. */
export function serverOf(...routes: Route[]): Promise<Server> {
  const host = '127.0.0.1';
  return startServer({ host, port: 0, clock: systemClock, report: () => {}, routes });
}

/** Clients that end with the test file, and the check that the server still answers. */
export function clientsOf(t: Test, { port }: EdgeFixture) {
  const client = (): RawClient => {
    const made = new RawClient(port);
    t.teardown(() => made.destroy());
    return made;
  };
  const alive = async (t: Test, name: string): Promise<void> => {
    const probe = client();
    const answer = await probe.send(request('GET /things/alive')).answer('"alive"');
    t.match(answer, /^HTTP\/1\.1 200/, name);
    probe.destroy();
  };
  return { client, alive };
}

function plainRoutes(): Route[] {
  return [
    route('GET', '/things', (exchange) => exchange.replyJson(200, { query: exchange.query })),
    route('GET', '/things/:id', (exchange, { id }) => exchange.replyJson(200, { id })),
    route('DELETE', '/things/:id', (exchange, { id }) => exchange.replyJson(200, { deleted: id })),
    route('GET', '/things/:id/parts/:part', (exchange, params) => exchange.replyJson(200, params)),
    route('GET', '/later', async (exchange) => {
      await new Promise((resolve) => setImmediate(resolve));
      exchange.replyJson(200, { later: true });
    }),
    route('GET', '/empty', (exchange) => exchange.reply(204, '')),
    route('GET', '/typed', (exchange) =>
      exchange.reply(200, Buffer.from('é'), { 'content-type': 'text/plain', 'x-more': 'yes' }),
    ),
    route('POST', '/echo', echo),
    route('POST', '/refuse', (exchange) => exchange.replyError(new ApiError('wrongKey'))),
    route('POST', '/late-echo', async (exchange) => {
      await new Promise((resolve) => setTimeout(resolve, 100));
      await echo(exchange);
    }),
  ];
}

async function echo(exchange: Exchange): Promise<void> {
  const body = await exchange.body();
  exchange.reply(200, body, { 'x-body-bytes': String(body.length) });
}

function faultRoutes(): Route[] {
  return [
    route('GET', '/throws', () => {
      throw new Error('thrown');
    }),
    route('GET', '/rejects', () => Promise.reject(new Error('rejected'))),
    route('GET', '/silent', () => {}),
    route('GET', '/twice', (exchange) => {
      exchange.replyJson(200, {});
      exchange.replyJson(200, {});
    }),
    route('GET', '/header-injection', (exchange) =>
      exchange.replyJson(200, {}, { 'x-bad': 'a\r\nset-cookie: b' }),
    ),
    route('GET', '/limited', () => {
      throw new ApiError('overloaded', {}, { retryAfterMs: 1_500 });
    }),
    route('GET', '/quota', () => {
      throw new ApiError('quotaExceeded', { token_credit: 0 });
    }),
    route('GET', '/breaks-in-stream', async (exchange) => {
      exchange.openStream(200).write('first');
      await new Promise((resolve) => setImmediate(resolve));
      throw new Error('broke');
    }),
  ];
}

const PIECE = 'x'.repeat(8 * 1024);
const FLOOD_BYTES = 64 * 1024 * 1024;

function streamRoutes(events: string[], flood: EdgeFixture['flood']): Route[] {
  return [
    route('GET', '/stream', async (exchange) => {
      const sink = exchange.openStream(200, { 'content-type': 'text/event-stream' });
      exchange.onGone(() => events.push('gone'));
      sink.write('one');
      await new Promise((resolve) => setImmediate(resolve));
      sink.write(Buffer.from('two'));
      sink.end();
      sink.write('after the end');
    }),
    route('GET', '/endless', async (exchange) => {
      const sink = exchange.openStream(200);
      await new Promise<void>((resolve) => {
        exchange.onGone(() => {
          events.push('gone');
          // Writing after the client left is legal and has no effect.
          events.push(`write ${sink.write('more')}`);
          resolve();
        });
        sink.write('first');
      });
    }),
    route('POST', '/gone-in-body', async (exchange) => {
      exchange.onGone(() => events.push('gone'));
      await exchange.body().catch((error: Error) => events.push(error.name));
    }),
    route('GET', '/flood', async (exchange) => {
      const sink = exchange.openStream(200);
      for (let sent = 0; sent < FLOOD_BYTES && !exchange.gone; sent += PIECE.length) {
        flood.bytes += PIECE.length;
        if (sink.write(PIECE)) continue;
        flood.waiting += 1;
        await sink.drained();
        flood.waiting -= 1;
      }
      sink.end();
    }),
    route('GET', '/flood-once', async (exchange) => {
      const sink = exchange.openStream(200);
      flood.bytes = 0;
      let fluent = true;
      while (fluent) {
        fluent = sink.write(PIECE);
        flood.bytes += PIECE.length;
      }
      events.push('slow');
      await sink.drained();
      events.push('drained');
      await new Promise<void>((resolve) => exchange.onGone(resolve));
    }),
    route('GET', '/deaf', (exchange) => {
      const sink = exchange.openStream(200);
      while (!exchange.gone) sink.write(PIECE);
      events.push('cut');
    }),
  ];
}

export { FLOOD_BYTES };
