/**
 * Owns how a test finds the engine process of its service, to end it.
 * It must never say which of two services an engine is of.
 */
import { execFileSync } from 'node:child_process';

/** Where one service runs: the oldest engine process, since the one on standby is younger; NaN while there is none. */
export function enginePid(): number {
  return enginePids()[0] ?? Number.NaN;
}

/** Of all services of this process, with those on standby, the oldest first. */
export function enginePids(): number[] {
  // By their starts: the numbers of processes begin again at 1 now and then.
  const args = ['--sort', 'start_time', '-o', 'pid=,args=', '--ppid', String(process.pid)];
  const children = execFileSync('ps', args);
  const lines = children.toString().split('\n');
  return lines
    .filter((each) => each.includes('host-child'))
    .map((each) => Number.parseInt(each, 10));
}
