/**
 * Owns a server that forwards each request to another one, for tests of that.
 * It must never answer one by itself.
 */
import type { Test } from 'tap';
import { type Clock, systemClock } from '../../src/clock.js';
import type { Exchange } from '../../src/http/exchange.js';
import { Forwarder } from '../../src/http/forward.js';
import { startServer } from '../../src/http/server.js';

export interface FrontOptions {
  readonly bodyBytesHeldMax?: number;
  /** Of the forwarder. */
  readonly clock?: Clock;
}

export const originAt = (port: number): string => `http://127.0.0.1:${port}`;

export async function startFront(t: Test, origin: string, options: FrontOptions = {}) {
  const { bodyBytesHeldMax, clock = systemClock } = options;
  const lines: string[] = [];
  const forwarder = new Forwarder({ clock, log: (line) => lines.push(line) });
  forwarder.origin = origin;
  const instead = () => (exchange: Exchange) => forwarder.forward(exchange);
  const corsOrigins = ['http://page.example'];
  const held = bodyBytesHeldMax === undefined ? {} : { bodyBytesHeldMax };
  const at = { host: '127.0.0.1', port: 0, clock: systemClock, report: () => {} };
  const server = await startServer(Object.assign({ routes: [], instead, corsOrigins }, held, at));
  t.teardown(async () => {
    forwarder.close();
    await server.close(0);
  });
  return { forwarder, lines, server, port: server.port, base: originAt(server.port) };
}
