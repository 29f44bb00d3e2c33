/**
 * Owns the walls that tests of other things put around readers: those of the service.
 * It must never do without one that this machine has.
 */
import { limits } from '../../src/limits/index.js';
import { findWalls, type Walls } from '../../src/pool/walls.js';

/** @param withoutPrograms taken as not installed. */
export function usualWalls(
  modules: readonly string[],
  hidden: readonly string[],
  withoutPrograms: readonly string[] = [],
): Promise<Walls> {
  const { extractionMemoryBytesMax: memoryBytesMax } = limits;
  return findWalls({ modules, hidden, memoryBytesMax, withoutPrograms });
}
