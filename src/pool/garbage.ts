/**
 * Owns the return of a thread's garbage to the system, after a task that made much of it.
 * It must never run in the main thread, whose requests would wait for it.
 */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { limits } from '../limits/index.js';

let collect: (() => void) | null = null;

/**
 * A thread that waits for its next task would keep its garbage until there is one: nothing else makes it collect.
 * @param bytes of what was worked on; for little the collector is not worth its time.
 */
export function collectGarbage(bytes: number): void {
  if (bytes < limits.threadGarbageBytesMin) return;
  collect ??= openCollector();
  collect();
}

/** The engine offers its collector to scripts whose context was made under this flag. */
function openCollector(): () => void {
  setFlagsFromString('--expose-gc');
  return runInNewContext('gc') as () => void;
}
