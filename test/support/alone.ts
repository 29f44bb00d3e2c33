/**
 * Owns the turns of tests that make the same thing on this machine, each in a process of its own: one after the other.
 * It must never wait for a process that has ended.
 */
import { readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';

const LOOK_MS = 100;
/** Longer than anything that tests make: then its process has ended, and another one has its number. */
const OLD_MS = 20 * 60_000;

/** Runs `act` while no other process does so under the same name. @param file is there meanwhile; its folder exists. */
export async function alone<Made>(file: string, act: () => Promise<Made>): Promise<Made> {
  while (!isTaken(file)) await delay(LOOK_MS);
  try {
    return await act();
  } finally {
    rmSync(file, { force: true });
  }
}

/** By this process, now. */
function isTaken(file: string): boolean {
  try {
    writeFileSync(file, String(process.pid), { flag: 'wx' });
    return true;
  } catch {
    // What an interrupted run left keeps nobody.
    if (hasEnded(file)) rmSync(file, { force: true });
    return false;
  }
}

function hasEnded(file: string): boolean {
  try {
    // Empty: it was made a moment ago.
    const pid = Number(readFileSync(file, 'utf8'));
    if (pid > 0) process.kill(pid, 0);
    return Date.now() - statSync(file).mtimeMs > OLD_MS;
  } catch (cause) {
    return (cause as NodeJS.ErrnoException).code === 'ESRCH';
  }
}
