/**
 * Owns the run of a benchmark or evaluation program against a service on the echo engine, whose answers are known.
 * It must never reach anything but that service, nor leave a process of the program behind.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import t, { type Test } from 'tap';
import { pythonVenv, type Venv, venvIsReady } from '../sdk/python-venv.js';
import type { Fields } from '../support/chat-client.js';
import { temporaryFolder } from '../support/service.js';
import { type ServiceProcess, startServiceProcess } from '../support/service-process.js';
import { skipWithoutWeights } from '../support/weights.js';
import { type TokenizerPlace, writeByteTokenizer } from './byte-tokenizer.js';

const RUN_MS_MAX = 120_000;
/** With two runs less than what the suite gives a file. */
const INSTALL_MS_MAX = 5.5 * 60_000;

export interface Harness {
  /** Names the program, and its version. */
  readonly venv: string;
  readonly packages: readonly string[];
  readonly program: string;
  args(place: HarnessPlace): readonly string[] | Promise<readonly string[]>;
  check(t: Test, folder: string, engine: Engine, service: ServiceProcess): void | Promise<void>;
  /** Whether a real model is asked too. */
  readonly real?: true;
  /** The one engine that is asked. */
  readonly only?: Engine;
}

export type Engine = 'echo' | 'llama';

export interface HarnessPlace {
  readonly engine: Engine;
  readonly service: ServiceProcess;
  /** Where it works and keeps what it likes to keep. */
  readonly folder: string;
  /** A tokenizer whose tokens are those of the echo engine. */
  readonly tokenizer: TokenizerPlace;
}

export async function testHarness(harness: Harness): Promise<void> {
  t.setTimeout(2 * RUN_MS_MAX + INSTALL_MS_MAX);
  const venv = await harnessVenv(harness);
  const both = ['echo', ...(harness.real ? ['llama' as const] : [])] as const;
  for (const engine of harness.only ? [harness.only] : both) {
    const skip = 'missing' in venv ? venv.missing : engine === 'llama' && skipWithoutWeights;
    await t.test(`${harness.venv} on ${engine}`, { skip }, async (t) => {
      if ('python' in venv) await testRun(t, { harness, engine, programs: dirname(venv.python) });
    });
  }
}

async function testRun(t: Test, { harness, engine, programs }: Attempt): Promise<void> {
  const settings = { PREFACE_ENGINE: engine, PREFACE_THREADS: '1,1' };
  const service = await startServiceProcess(t, {}, settings);
  const folder = temporaryFolder(t);
  const tokenizer = writeByteTokenizer(join(folder, 'hub-home'));
  const args = await harness.args({ engine, service, folder, tokenizer });
  const { program, check } = harness;
  await run({ programs, program, args, folder, key: service.key });
  t.pass(`${program} ended well`);
  await check(t, folder, engine, service);
}

/** These bring up to gigabytes with them: they are installed where that is asked for. */
/** Where it is, or made with `TEST_HARNESSES=1`. */
export async function harnessVenv({
  venv,
  packages,
}: Pick<Harness, 'venv' | 'packages'>): Promise<Venv> {
  if (process.env.TEST_HARNESSES !== '1' && !venvIsReady(venv)) {
    return { missing: `TEST_HARNESSES=1 installs ${packages.join(', ')}` };
  }
  return await pythonVenv(venv, packages, { installMsMax: INSTALL_MS_MAX });
}

interface Attempt {
  readonly harness: Harness;
  readonly engine: Engine;
  readonly programs: string;
}

interface Run {
  readonly programs: string;
  readonly program: string;
  readonly args: readonly string[];
  readonly folder: string;
  readonly key: string;
}

/** @throws Error with the end of what it wrote, when the program says that it failed. */
async function run({ programs, program, args, folder, key }: Run): Promise<void> {
  const child = spawn(join(programs, program), args, {
    cwd: folder,
    env: {
      PATH: `${programs}:${process.env.PATH}`,
      HOME: folder,
      HF_HOME: join(folder, 'hub-home'),
      HF_HUB_OFFLINE: '1',
      HF_DATASETS_OFFLINE: '1',
      DO_NOT_TRACK: '1',
      OPENAI_API_KEY: key,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
    // A group of its own: these programs start further processes.
    detached: true,
  });
  const stop = () => endGroup(child.pid);
  const timer = setTimeout(stop, RUN_MS_MAX);
  const output: Buffer[] = [];
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk: Buffer) => output.push(chunk));
  }
  const [code] = (await once(child, 'close')) as [number | null];
  clearTimeout(timer);
  stop();
  const text = Buffer.concat(output).toString().slice(-4_000);
  if (code !== 0) throw new Error(`${program} ended with ${code}: ${text}`);
}

function endGroup(pid: number | undefined): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // They have all ended by themselves.
  }
}

/** What lies in the file at the end of the way; undefined where the way ends before. */
export function read(file: string, ...way: readonly (string | number)[]): unknown {
  const all: unknown = JSON.parse(readFileSync(file, 'utf8'));
  return way.reduce<unknown>((inner, name) => (inner as Fields | undefined)?.[name], all);
}
