/**
 * Owns the processes under test: started on their own core, measured by the kernel's counters, ended by pid.
 * It must never measure by the clock what the kernel counts: other processes on the machine would change the result.
 */
import { type ChildProcess, type SpawnOptions, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

/** Servers run on the first core and clients on the last, where there are two cores and `taskset`. */
export type Core = 'server' | 'client' | 'any';

const canPin = availableParallelism() > 1 && spawnSync('taskset', ['-V']).status === 0;
export const hasProc = existsSync('/proc/self/smaps_rollup');
/** The results say where processes are not pinned to cores. */
export const pinning = canPin
  ? `servers on core 0, clients on core ${availableParallelism() - 1}`
  : 'none';

export const builtFile = (path: string): string =>
  fileURLToPath(new URL(`../../${path}`, import.meta.url));

export function startNode(
  core: Core,
  args: readonly string[],
  options: SpawnOptions,
): ChildProcess {
  if (!canPin || core === 'any') return spawn(process.execPath, args, options);
  const number = core === 'server' ? 0 : availableParallelism() - 1;
  return spawn('taskset', ['-c', String(number), process.execPath, ...args], options);
}

export async function endProcess(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = once(child, 'exit');
  child.kill('SIGTERM');
  const timer = setTimeout(() => child.kill('SIGKILL'), END_MS_MAX);
  await exit;
  clearTimeout(timer);
}

const END_MS_MAX = 5_000;

/** The process and all its descendants. */
export function treeOf(pid: number): number[] {
  const parents = new Map<number, number>();
  for (const name of readdirSync('/proc')) {
    const parent = /^\d+$/.test(name) ? parentOf(Number(name)) : null;
    if (parent !== null) parents.set(Number(name), parent);
  }
  const tree = [pid];
  for (const found of tree) {
    for (const [child, parent] of parents) if (parent === found) tree.push(child);
  }
  return tree;
}

/** Null for a process that ended after it was listed. */
function parentOf(pid: number): number | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    // The name is in brackets and may contain any character.
    return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
  } catch {
    return null;
  }
}

/** CPU seconds of all running threads, to the nanosecond; ended threads are not counted. */
export function cpuSeconds(pids: readonly number[]): number {
  let nanoseconds = 0;
  for (const pid of pids) {
    for (const thread of whileAlive(() => readdirSync(`/proc/${pid}/task`)).flat()) {
      const [text = ''] = readWhileAlive(`/proc/${pid}/task/${thread}/schedstat`);
      nanoseconds += Number(text.split(' ')[0]);
    }
  }
  return nanoseconds / 1e9;
}

/** CPU seconds of a tree in which processes end meanwhile: each counts as it was seen last, at most `LOOK_MS` before its end. */
export class CpuMeter {
  static readonly LOOK_MS = 100;
  readonly #seen = new Map<number, number>();
  readonly #before: number;
  readonly #timer: NodeJS.Timeout;

  constructor(readonly tree: () => readonly number[]) {
    this.#before = this.#look();
    this.#timer = setInterval(() => this.#look(), CpuMeter.LOOK_MS);
  }

  end(): number {
    clearInterval(this.#timer);
    return this.#look() - this.#before;
  }

  #look(): number {
    for (const pid of this.tree()) {
      this.#seen.set(pid, Math.max(this.#seen.get(pid) ?? 0, cpuSeconds([pid])));
    }
    return [...this.#seen.values()].reduce((sum, each) => sum + each, 0);
  }
}

/** Resolves when the processes have worked less than a tenth of the time for half a second, at the latest after `msMax`. */
export async function atRest(tree: () => readonly number[], msMax = 30_000): Promise<void> {
  const LOOK_MS = 500;
  for (const endMs = performance.now() + msMax; performance.now() < endMs; ) {
    const pids = tree();
    const beforeS = cpuSeconds(pids);
    await delay(LOOK_MS);
    if (cpuSeconds(pids) - beforeS < LOOK_MS / 10 / 1_000) return;
  }
}

/** CPU seconds of all threads, also of ended ones, to ten milliseconds. */
export function roughCpuSeconds(pids: readonly number[]): number {
  const ticks = pids.flatMap((pid) => readWhileAlive(`/proc/${pid}/stat`)).map(ticksOf);
  return ticks.reduce((sum, each) => sum + each, 0) / TICKS_PER_SECOND;
}

const TICKS_PER_SECOND = 100;

/** Time of the process itself and in the kernel for it; its name is in brackets and may contain any character. */
function ticksOf(stat: string): number {
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return Number(fields[11]) + Number(fields[12]);
}

/**
 * Megabytes of memory; pages that these processes share are counted once. The kernel's proportional figure would
 * shrink with every other Node process on the machine.
 */
export function memoryMegabytes(pids: readonly number[]): number {
  const all = pids.flatMap((pid) => readWhileAlive(`/proc/${pid}/smaps_rollup`));
  const kilobytes = (text: string, name: string) =>
    Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(text)?.[1] ?? Number.NaN);
  const shared = all.map(
    (text) => kilobytes(text, 'Shared_Clean') + kilobytes(text, 'Shared_Dirty'),
  );
  const own = all.map((text, at) => kilobytes(text, 'Rss') - (shared[at] ?? 0));
  return ((own.reduce((sum, each) => sum + each, 0) + Math.max(...shared)) * 1024) / 1e6;
}

/** A process that ended after the tree was listed has no memory, and a thread that ended after its process no time. */
function readWhileAlive(path: string): string[] {
  return whileAlive(() => readFileSync(path, 'latin1'));
}

/** What the kernel tells, or nothing where what it would tell of has ended. */
export function whileAlive<Told>(read: () => Told): Told[] {
  try {
    return [read()];
  } catch (cause) {
    if (['ENOENT', 'ESRCH'].includes((cause as NodeJS.ErrnoException).code ?? '')) return [];
    throw cause;
  }
}

/** Resets the highest resident size of a process to the current one. */
export function resetPeak(pid: number): void {
  whileAlive(() => writeFileSync(`/proc/${pid}/clear_refs`, '5'));
}

/** A line of `/proc/PID/status`, such as `VmRSS`, or `VmHWM` for the highest since `resetPeak`. */
export function statusKilobytes(pid: number, name: string): number {
  const status = readFileSync(`/proc/${pid}/status`, 'latin1');
  return Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1] ?? Number.NaN);
}
