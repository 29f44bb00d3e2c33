/**
 * Owns how a test finds the engine's process of the service it runs, to end it.
 * It must never be used where two services run: it would not know whose engine it found.
 */
import { execFileSync } from 'node:child_process';

/** NaN while there is none. The oldest: one that stands by for it is younger. */
export function enginePid(): number {
  const children = execFileSync('ps', ['-o', 'pid=,args=', '--ppid', String(process.pid)]);
  const line = children
    .toString()
    .split('\n')
    .find((each) => each.includes('host-child'));
  return Number.parseInt(line ?? '', 10);
}
