/**
 * Owns the choice of a port for a program that cannot report the one it took.
 * It must never keep the port: another program may take it before the one that is meant.
 */
import { randomInt } from 'node:crypto';
import { createServer } from 'node:net';

/**
 * Below the ports that systems give to connections and to who listens at any: one of those may be given to another
 * program before the one that is meant listens, or to a connection to the very port.
 */
const [FROM, BELOW] = [20_000, 32_000];
const ATTEMPTS_MAX = 100;

/** One of 127.0.0.1 that was free a moment ago, and so many behind it. */
export async function freePort(more = 0): Promise<number> {
  for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt += 1) {
    const port = randomInt(FROM, BELOW - more);
    const ports = Array.from({ length: 1 + more }, (_, at) => port + at);
    if ((await Promise.all(ports.map(isFree))).every(Boolean)) return port;
  }
  throw new Error(`of ${ATTEMPTS_MAX} ports none is free`);
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer().once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}
