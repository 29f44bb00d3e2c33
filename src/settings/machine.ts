/**
 * Owns what is read off the machine for the defaults: platform, home, memory, cores.
 * It must never decide what a default is.
 */
import { availableParallelism, homedir, totalmem } from 'node:os';
import type { Machine } from './table.js';

/** `told` wins over what is found. */
export function thisMachine(
  env: Machine['env'],
  told: Partial<Omit<Machine, 'env'>> = {},
): Machine {
  // A container's bound, where there is one; without one it is 0 or larger than the memory.
  const constrained = process.constrainedMemory() || Number.POSITIVE_INFINITY;
  return {
    platform: process.platform,
    homeDir: env.HOME || homedir(),
    memoryBytes: Math.min(totalmem(), constrained),
    cores: availableParallelism(),
    ...told,
    env,
  };
}
