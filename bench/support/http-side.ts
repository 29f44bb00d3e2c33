/**
 * Owns a side that is a server under load: the requests it answers per second of its CPU.
 * It must never judge answers: it returns what arrived.
 */
import { checkOf } from './check.js';
import type { LoadClient } from './load.js';
import type { Sample, Scale, Side } from './question.js';
import type { Server } from './servers.js';

const CONNECTIONS = 32;
const TINY_REQUESTS = 64;

export interface HttpSide {
  readonly name: string;
  readonly server: Server;
  readonly client: LoadClient;
  readonly request: string;
  readonly serialAt: number | null;
  /** 32 if absent. */
  readonly connections?: number;
  readonly scale: Scale;
}

export function httpSide(side: HttpSide): Side {
  return { name: side.name, measure: () => measureLoad(side) };
}

async function measureLoad({
  server,
  client,
  request,
  serialAt,
  connections = CONNECTIONS,
  scale,
}: HttpSide): Promise<Sample> {
  const loaded = await client.load(server, {
    connections: scale.tiny ? 4 : connections,
    ms: scale.ms,
    requests: scale.tiny ? TINY_REQUESTS : null,
    request,
    serialAt,
  });
  return {
    value: loaded.requests / loaded.cpuS,
    errors: loaded.errors,
    check: checkOf(lasting(loaded.body)),
    beside: {
      'requests/s by the clock': loaded.requests / (loaded.ms / 1000),
      "part of the server's core": loaded.cpuS / (loaded.ms / 1000),
      'p50, ms': loaded.p50Ms,
      'p99, ms': loaded.p99Ms,
    },
  };
}

/** Ids, times and serial numbers differ from answer to answer. */
export function lasting(body: string): string {
  return body.replace(/"id":"(?:chatcmpl|cache)-[^"]*"|"created":\d+|\d{9,}/g, '');
}
