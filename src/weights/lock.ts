/**
 * Owns the lock that lets one process at a time download a file, also across containers that share a folder.
 * It must never trust a process id: in another container the same number is another process.
 */
import { rmSync } from 'node:fs';
import { open, rm, stat, utimes } from 'node:fs/promises';
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
  // Removed when a signal ends the process, so that the next one need not wait until the lock is stale.
  const release = () => rmSync(path, { force: true });
  process.once('exit', release);
  return async () => {
    clearInterval(beat);
    process.off('exit', release);
    await rm(path, { force: true });
  };
}

async function take(path: string): Promise<boolean> {
  try {
    await (await open(path, 'wx')).close();
    return true;
  } catch (cause) {
    if (codeOf(cause) === 'EEXIST') return false;
    throw cause;
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
  if (found !== null && Date.now() - found.mtimeMs > staleMs) await rm(path, { force: true });
}
