/**
 * Owns the choice of a port for a program that cannot report the one it took.
 * It must never keep the port: another program may take it before the one that is meant.
 */
import { createServer } from 'node:net';

/** One of 127.0.0.1 that was free a moment ago. */
export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer().on('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      server.close(() =>
        resolve(typeof address === 'object' && address !== null ? address.port : 0),
      );
    });
  });
}
