/**
 * Owns a whole service as an operator starts it: a separate process, on a free port, with its own data folder.
 * It must never outlive the test; it is ended by its process id.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Test } from 'tap';
import { bringExactness } from '../../bench/support/known-exactness.js';
import type { Fields } from './chat-client.js';
import { aliceKey, serviceEnv, temporaryFolder } from './service.js';

export interface ServiceProcess {
  /** Ends in `/v1`. */
  readonly url: string;
  readonly key: string;
  readonly pid: number;
  /** Its standard error output so far. */
  log(): string;
  /** Its standard output so far. */
  said(): string;
  /** Resolves with the exit code; null where a signal ended it. */
  readonly ended: Promise<number | null>;
}

const START_MS_MAX = 120_000;
const LISTENING = /^preface listening on (http:\S+)$/m;

/** @throws Error with the output, when the service ends or prints no address in time. */
export async function startServiceProcess(
  t: Test,
  settings: Fields,
  env: Readonly<Record<string, string>> = {},
  nodeArguments: readonly string[] = [],
): Promise<ServiceProcess> {
  const folder = temporaryFolder(t);
  const file = join(folder, 'settings.json');
  writeFileSync(file, JSON.stringify(settings));
  if (env.PREFACE_ENGINE === 'llama') bringExactness(env.PREFACE_DATA_DIR ?? join(folder, 'data'));
  const cli = fileURLToPath(new URL('../../src/cli.js', import.meta.url));
  const child = spawn(process.execPath, [...nodeArguments, cli, 'serve'], {
    env: {
      PATH: process.env.PATH,
      ...serviceEnv(join(folder, 'data')),
      PREFACE_CONFIG: file,
      ...env,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const output = { out: '', err: '' };
  child.stdout.on('data', (chunk: Buffer) => (output.out += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (output.err += chunk.toString()));
  t.teardown(() => end(child));
  const ended = once(child, 'close').then(([code]) => code as number | null);
  const url = await listening(child, output);
  return {
    url,
    key: aliceKey,
    pid: child.pid ?? 0,
    log: () => output.err,
    said: () => output.out,
    ended,
  };
}

function listening(child: ChildProcess, output: { out: string; err: string }): Promise<string> {
  return new Promise((resolve, reject) => {
    const fail = (how: string) => reject(new Error(`${how}: ${output.out}${output.err}`));
    const timer = setTimeout(() => fail('the service said nothing in time'), START_MS_MAX);
    child.once('close', () => fail('the service ended'));
    child.stdout?.on('data', () => {
      const url = LISTENING.exec(output.out)?.[1];
      if (url === undefined) return;
      clearTimeout(timer);
      resolve(url);
    });
  });
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill('SIGKILL');
  await once(child, 'close');
}
