/**
 * Owns the measured servers: the service as a user starts it, and the bare HTTP library.
 * It must never run a server inside the measuring process.
 */
import type { ChildProcess } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { DEFAULT_WEIGHTS } from '../../src/settings/weights-table.js';
import { otherWeights } from './counting.js';
import { bringExactness } from './known-exactness.js';
import { builtFile, type Core, endProcess, startNode, treeOf } from './processes.js';

export interface Server {
  readonly port: number;
  readonly pid: number;
  /** From the start of the process to the line that says where it listens. */
  readonly startMs: number;
  /** The current process tree. */
  tree(): number[];
  close(): Promise<void>;
}

export const KEY = 'key-of-the-bench';
/** Settings for benches whose caches exceed an account's default bound. */
export const manyCaches = { accounts: { default: { cachedTokens: 1e12 } } };
/** The first start with other slots proves anew what is exact, which takes a busy machine a minute and more. */
const START_MS_MAX = 240_000;
const LOG_LENGTH_SHOWN = 2_000;

export interface ServiceOptions {
  readonly core: Core;
  /** Environment variables, which override those of the echo engine. */
  readonly env?: Readonly<Record<string, string>>;
  /** Settings file. */
  readonly config?: object;
}

let resting: Map<string, Server> | null = null;

/**
 * For a run that judges no figure: from now on a service that is closed rests, and goes on for who asks for one with the same
 * settings next. One with a data folder or a port of its own is closed all the same.
 * @returns what ends those that rest.
 */
export function shareServices(): () => Promise<void> {
  const all = new Map<string, Server>();
  resting = all;
  return async () => {
    resting = null;
    await Promise.all([...all.values()].map((server) => server.close()));
  };
}

/** `preface serve` in a folder of its own, on any free port. */
export async function startService(options: ServiceOptions): Promise<Server> {
  const { env = {} } = options;
  const mayRest = env.PREFACE_DATA_DIR === undefined && env.PREFACE_PORT === undefined;
  if (resting === null || !mayRest) return await startOwn(options);
  const key = JSON.stringify([options.core, env, options.config]);
  const server = resting.get(key) ?? (await startOwn(options));
  resting.delete(key);
  const close = async (): Promise<void> => {
    if (resting === null || resting.has(key)) return await server.close();
    resting.set(key, server);
  };
  return { ...server, close };
}

async function startOwn({ core, env, config }: ServiceOptions): Promise<Server> {
  const folder = mkdtempSync(join(tmpdir(), 'preface-bench-'));
  const file = join(folder, 'settings.json');
  const weights = otherWeights();
  const served = weights === null ? {} : { weights: { [DEFAULT_WEIGHTS]: { file: weights } } };
  writeFileSync(file, JSON.stringify({ ...served, ...config }));
  const settings = {
    PREFACE_ENGINE: 'echo',
    PREFACE_PORT: '0',
    PREFACE_DATA_DIR: join(folder, 'data'),
    PREFACE_API_KEYS: `bench:${KEY}`,
    PREFACE_CONFIG: file,
    ...env,
  };
  const home = { PATH: process.env.PATH ?? '', HOME: homedir() };
  if (settings.PREFACE_ENGINE === 'llama') bringExactness(settings.PREFACE_DATA_DIR);
  const args = [builtFile('src/cli.js'), 'serve'];
  const forget = () => rmSync(folder, { recursive: true, force: true });
  // The log has a line for each request: writing it is part of the service's work.
  const log = join(folder, 'log');
  const stderr = openSync(log, 'w');
  try {
    const server = await start({ core, args, env: { ...home, ...settings }, stderr });
    return { ...server, close: () => server.close().finally(forget) };
  } catch (cause) {
    const said = readFileSync(log, 'utf8').slice(-LOG_LENGTH_SHOWN);
    forget();
    throw new Error(`the service said: ${said}`, { cause });
  } finally {
    closeSync(stderr);
  }
}

/** The answer of the bare library: constant bytes, or an endless stream of chunks. */
export type RawMode =
  | { readonly type: 'answer'; readonly body: string }
  /** Server-sent events, all at once: a model's server that takes no time. */
  | { readonly type: 'events'; readonly body: string }
  | { readonly type: 'stream'; readonly chunk: string; readonly paceMs: number }
  /** Receives a body. With a folder, it flushes the bytes to a file there before it answers; null drops them. */
  | { readonly type: 'sink'; readonly folder: string | null };

export async function startRaw(core: Core, mode: RawMode): Promise<Server> {
  const args = [builtFile('bench/support/raw-server.js'), JSON.stringify(mode)];
  return await start({ core, args, env: process.env, stderr: 'inherit' });
}

interface Start {
  readonly core: Core;
  readonly args: readonly string[];
  readonly env: NodeJS.ProcessEnv;
  readonly stderr: number | 'inherit';
}

async function start({ core, args, env, stderr }: Start): Promise<Server> {
  const startedMs = performance.now();
  const child = startNode(core, args, { env, stdio: ['ignore', 'pipe', stderr] });
  try {
    const port = await listeningPort(child);
    const pid = child.pid ?? 0;
    const startMs = performance.now() - startedMs;
    return { port, pid, startMs, tree: () => treeOf(pid), close: () => endProcess(child) };
  } catch (cause) {
    await endProcess(child);
    throw cause;
  }
}

/** Both servers print one line that ends in their address. */
async function listeningPort(child: ChildProcess): Promise<number> {
  if (child.stdout === null) throw new Error('the server has no output');
  const timer = setTimeout(() => child.kill('SIGKILL'), START_MS_MAX);
  for await (const line of createInterface({ input: child.stdout })) {
    const found = /listening on http:\/\/127\.0\.0\.1:(\d+)/.exec(line);
    if (found === null) continue;
    clearTimeout(timer);
    child.stdout.resume();
    return Number(found[1]);
  }
  throw new Error(`the server ended before it listened: ${child.spawnargs.join(' ')}`);
}
