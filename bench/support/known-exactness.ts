/**
 * Owns where a run of the tests keeps what it once found of the default weights: which ways of evaluating have the same bits.
 * It must never outlive its run, nor stand in where the finding itself is looked at: each service would find the same, and take eight
 * seconds of a core for it.
 */
import { copyFileSync, existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';

const FILE = 'engine-llama-exactness.json';

/** For a service that is about to start with this data folder. */
export function bringExactness(dataDir: string): void {
  copyExactness(join(dataDir, 'engine'));
}

/** Without `TEST_EXACTNESS`, the folder of the finding, the engine compares by itself; so it does for other weights. */
export function copyExactness(stateDir: string): void {
  const found = join(process.env.TEST_EXACTNESS ?? '', FILE);
  const own = join(stateDir, FILE);
  if (process.env.TEST_EXACTNESS === undefined || !existsSync(found) || existsSync(own)) return;
  mkdirSync(stateDir, { recursive: true });
  copyFileSync(found, own);
}
