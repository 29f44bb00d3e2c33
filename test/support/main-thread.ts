/**
 * Owns the figures of a service's main thread as its operating system counts them: CPU time and resident memory.
 * It must never measure by the wall clock, which on a shared machine tells of the others.
 */
import { readFileSync } from 'node:fs';

export const hasThreadFigures = process.platform === 'linux';

/** Milliseconds of CPU of the main thread, which runs the event loop. The kernel counts in ticks of 10 ms. */
export function mainThreadCpuMs(pid: number): number {
  return cpuMsIn(`/proc/${pid}/task/${pid}/stat`);
}

/** Milliseconds of CPU of all threads of a process. */
export function processCpuMs(pid: number): number {
  return cpuMsIn(`/proc/${pid}/stat`);
}

function cpuMsIn(path: string): number {
  const stat = readFileSync(path, 'latin1');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

/**
 * Bytes of the whole process, with all its threads. Without pages of files: the database is mapped, and the system takes
 * its pages back when it needs them.
 */
export function residentBytes(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, 'latin1');
  return Number(/^RssAnon:\s+(\d+) kB/m.exec(status)?.[1] ?? 0) * 1024;
}
