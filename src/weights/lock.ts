/**
 * Owns the lock that lets one process at a time download a file, also across containers that share a folder.
 * It must never trust a bare process id: in another container the same number is another process.
 */
import { readFileSync, readlinkSync, rmSync } from 'node:fs';
import { open, readFile, rm, stat, utimes } from 'node:fs/promises';
import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Clock } from '../clock.js';
import { codeOf } from '../errors.js';
import type { Progress } from './progress.js';
import type { WeightsLimits } from './source.js';

/** Waits for the lock file, then keeps it fresh. @returns the release. */
export async function holdLock(
  path: string,
  clock: Clock,
  bounds: WeightsLimits,
  progress: Progress,
): Promise<() => Promise<void>> {
  const startMs = clock.monotonicMs();
  await removeStale(path, bounds.weightsLockStaleMs);
  for (let waits = 0; !(await take(path)); waits += 1) {
    if (waits === 0)
      progress.line(`waiting for another process that downloads the same file (${path})`);
    if (clock.monotonicMs() - startMs > bounds.weightsLockWaitMsMax) {
      throw new Error(
        `another process has held ${path} for too long: end that process or remove the file`,
      );
    }
    await removeStale(path, bounds.weightsLockStaleMs);
    await sleep(bounds.weightsLockPollMs);
  }
  const beat = setInterval(() => touch(path), bounds.weightsLockBeatMs);
  hold(path);
  return async () => {
    clearInterval(beat);
    letGo(path);
    await rm(path, { force: true });
  };
}

// Removed when the process ends, so that the next one need not wait for what nobody does.
const held = new Set<string>();
let watched: NodeJS.Signals[] = [];

function hold(path: string): void {
  if (held.size === 0) {
    process.on('exit', removeHeld);
    // A signal without a listener ends the process without an exit; who listens to one ends it.
    watched = (['SIGINT', 'SIGTERM', 'SIGHUP'] as const).filter(
      (signal) => process.listenerCount(signal) === 0,
    );
    for (const signal of watched) process.on(signal, endBy);
  }
  held.add(path);
}

function letGo(path: string): void {
  held.delete(path);
  if (held.size > 0) return;
  process.off('exit', removeHeld);
  for (const signal of watched) process.off(signal, endBy);
}

function removeHeld(): void {
  for (const path of held) rmSync(path, { force: true });
}

function endBy(signal: NodeJS.Signals): void {
  removeHeld();
  for (const each of watched) process.off(each, endBy);
  // Later: a bar on the terminal listens too, and shows the cursor again.
  setImmediate(() => process.kill(process.pid, signal));
}

async function take(path: string): Promise<boolean> {
  try {
    const file = await open(path, 'wx');
    await file.writeFile(JSON.stringify({ pid: process.pid, place: placeOfIds() }));
    await file.close();
    return true;
  } catch (cause) {
    if (codeOf(cause) === 'EEXIST') return false;
    throw cause;
  }
}

/** Where a process id means the same process: a boot of a machine, and on Linux a namespace of ids. */
function placeOfIds(): string | null {
  if (process.platform !== 'linux') return hostname();
  try {
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
    return `${boot} ${readlinkSync('/proc/self/ns/pid')}`;
  } catch {
    return null;
  }
}

async function isAbandoned(path: string): Promise<boolean> {
  const text = await readFile(path, 'utf8').catch(() => '');
  // Of another release, or not yet written.
  const [, pid, place] = /^\{"pid":(\d+),"place":"([^"]+)"\}$/.exec(text) ?? [];
  if (pid === undefined || place !== placeOfIds()) return false;
  try {
    process.kill(Number(pid), 0);
    return false;
  } catch (cause) {
    return codeOf(cause) === 'ESRCH';
  }
}

function touch(path: string): void {
  const now = new Date();
  utimes(path, now, now).catch(() => undefined);
}

/**
 * Two processes that find the lock stale at once may both go on and write the same partial file. The checksum is taken
 * before the file gets its name, and refuses such a mixture.
 */
async function removeStale(path: string, staleMs: number): Promise<void> {
  const found = await stat(path).catch(() => null);
  if (found === null) return;
  if (Date.now() - found.mtimeMs > staleMs || (await isAbandoned(path)))
    await rm(path, { force: true });
}
