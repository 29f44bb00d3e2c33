/**
 * Owns what a service holds in memory, as a test asks it: what is loaded into its process collects the garbage first.
 * It must never answer for another thread than the main one.
 */
import { fileURLToPath } from 'node:url';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { isMainThread } from 'node:worker_threads';
import type { ServiceProcess } from './service-process.js';
import { until } from './until.js';

const MARK = 'TEST_MEMORY_PROBE';
const ANSWER = /^held (\d+) (\d+)$/gm;

/** Bytes that the main thread holds once its garbage is collected. */
export interface Held {
  readonly heap: number;
  /** Outside of the heap. What is reserved and never written counts too, and takes no memory. */
  readonly external: number;
}

/** For the command line of a service. */
export const probeArguments = ['--import', fileURLToPath(import.meta.url)];
/** For its environment: whatever it starts has the command line, but not this. */
export const probeEnvironment = { [MARK]: 'true' };

/** One call at a time. */
export async function heldBytes(service: ServiceProcess): Promise<Held> {
  const told = () => [...service.said().matchAll(ANSWER)];
  const { length } = told();
  process.kill(service.pid, 'SIGUSR2');
  await until(() => told().length > length, 60_000, 'the service tells what it holds');
  const [, heap, external] = told().at(-1) ?? [];
  return { heap: Number(heap), external: Number(external) };
}

function answer(): void {
  setFlagsFromString('--expose-gc');
  const collect: unknown = runInNewContext('gc');
  const tell = () => {
    // The buffers of the first collection are given back beside the program; the second waits for that.
    for (let i = 0; i < 2; i++) if (typeof collect === 'function') collect();
    const { heapUsed, external } = process.memoryUsage();
    process.stdout.write(`held ${heapUsed} ${external}\n`);
  };
  process.on('SIGUSR2', tell);
}

if (isMainThread && process.env[MARK] === 'true') answer();
