/**
 * Owns how the HTTP library listens on a port, and why it could not.
 * It must never take a port that another program has.
 */
import type * as Uws from 'uWebSockets.js';
import { createServer } from 'node:net';

export const EXCLUSIVE_PORT = 1;
/** The kernel spreads connections over all sockets of one user that listen so. */
export const SHARED_PORT = 0;

/** @throws Error that says what to do. */
export async function listen(
  app: Uws.TemplatedApp,
  host: string,
  port: number,
  how: typeof EXCLUSIVE_PORT | typeof SHARED_PORT,
): Promise<Uws.us_listen_socket> {
  const found = await new Promise<Uws.us_listen_socket | false>((resolve) => {
    // The typed overloads lack the one with a host and options, which the addon has: where the port is not exclusive a
    // second process listens on it too, and takes half of the requests.
    const typed = app as unknown as { listen: ListenExclusive };
    typed.listen(host, port, how, resolve);
  });
  if (found) return found;
  throw await listenError(host, port);
}

type ListenExclusive = (
  host: string,
  port: number,
  options: number,
  done: (socket: Uws.us_listen_socket | false) => void,
) => void;

const CURES: Readonly<Record<string, string>> = {
  EADDRINUSE:
    'another process listens there; stop it or choose another port (0 takes any free one)',
  EACCES: 'no permission for this port; choose one above 1023',
  EADDRNOTAVAIL: 'this machine has no such address; choose 127.0.0.1, or 0.0.0.0 for all',
  ENOTFOUND: 'the host name is unknown; choose 127.0.0.1, or 0.0.0.0 for all',
};

/** The library only says that it failed; Node's own socket says why. */
async function listenError(host: string, port: number): Promise<Error> {
  const code = await new Promise<string>((resolve) => {
    const probe = createServer();
    probe.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
    probe.listen(port, host, () => probe.close(() => resolve('unknown reason')));
  });
  const cure = CURES[code] ?? 'choose another host or port';
  return new Error(`cannot listen on host ${host}, port ${port}: ${code}: ${cure}`);
}
