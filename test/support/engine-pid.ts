/**
 * Owns how a test finds the engine process of its service, to end it.
 * It must never be used where two services run: it could find the engine of the other one.
 */
import { execFileSync } from 'node:child_process';

/** The oldest engine process, since the one on standby is younger; NaN while there is none. */
export function enginePid(): number {
  // By their starts: the numbers of processes begin again at 1 now and then.
  const args = ['--sort', 'start_time', '-o', 'pid=,args=', '--ppid', String(process.pid)];
  const children = execFileSync('ps', args);
  const line = children
    .toString()
    .split('\n')
    .find((each) => each.includes('host-child'));
  return Number.parseInt(line ?? '', 10);
}
