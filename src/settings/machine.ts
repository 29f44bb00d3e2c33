/**
 * Owns what is read from the machine for the defaults: platform, home folder, memory, cores, environment.
 * It must never decide what a default is.
 */
import { availableParallelism, homedir, totalmem } from 'node:os';

/** What a default may depend on. */
export interface Machine {
  readonly platform: NodeJS.Platform;
  readonly homeDir: string;
  readonly memoryBytes: number;
  readonly cores: number;
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** The part of it that one of so many processes takes. */
export function partOfMachine(machine: Machine, processes: number): Machine {
  const { memoryBytes, cores } = machine;
  const part = (whole: number) => Math.max(1, Math.floor(whole / processes));
  return { ...machine, memoryBytes: part(memoryBytes), cores: part(cores) };
}

/** @param told replaces what is found. */
export function thisMachine(
  env: Machine['env'],
  told: Partial<Omit<Machine, 'env'>> = {},
): Machine {
  // The memory bound of a container; without a bound it is 0 or larger than the memory.
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
