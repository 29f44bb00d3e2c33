/**
 * Owns how a test finds the engine process of its service, to end it.
 * It must never be used where two services run: it could find the engine of the other one.
 */
import { execFileSync } from 'node:child_process';

/** The oldest engine process, since the one on standby is younger; NaN while there is none. */
export function enginePid(): number {
  const children = execFileSync('ps', ['-o', 'pid=,args=', '--ppid', String(process.pid)]);
  const line = children
    .toString()
    .split('\n')
    .find((each) => each.includes('host-child'));
  return Number.parseInt(line ?? '', 10);
}
