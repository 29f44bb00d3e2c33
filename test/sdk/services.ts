/**
 * Owns what the official SDKs talk to: one service with a real model, one whose answers are known beforehand.
 * It must never share anything with the SDKs but an address and a key: they run in processes of their own.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import type { Test } from 'tap';
import { bobKey } from '../support/service.js';
import { startServiceProcess } from '../support/service-process.js';
import { shallowSettings } from '../support/shallow-weights.js';
import { compiledOnce } from './python-venv.js';

const SCENARIO_MS_MAX = 300_000;

export interface SdkServices {
  readonly env: Readonly<Record<string, string>>;
}

/** Two slots: enough for two choices, and so few that two streams nobody ends would be noticed. */
export async function startSdkServices(t: Test): Promise<SdkServices> {
  // One thread: the runner has other files at work beside this one.
  const llama = { PREFACE_ENGINE: 'llama', PREFACE_THREADS: '1,1', PREFACE_SLOTS: '2' };
  const [real, echo] = await Promise.all([
    startServiceProcess(t, shallowSettings(), llama),
    startServiceProcess(t, { limits: { accountConcurrency: 1 } }),
  ]);
  const keys = { API_KEY: real.key, OTHER_KEY: bobKey };
  return { env: { REAL_URL: real.url, ECHO_URL: echo.url, ...keys } };
}

interface Step {
  readonly step: string;
  readonly ok: boolean;
  readonly ms: number;
  readonly error?: string;
}

/** Each line a scenario prints is one step and its outcome; the last one says that it came to its end. */
export async function runScenario(
  t: Test,
  command: string,
  args: readonly string[],
  { env }: SdkServices,
): Promise<void> {
  const child = spawn(command, args, {
    env: { PATH: process.env.PATH, HOME: process.env.HOME, ...compiledOnce, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: SCENARIO_MS_MAX,
    killSignal: 'SIGKILL',
  });
  const errors: Buffer[] = [];
  child.stderr.on('data', (chunk: Buffer) => errors.push(chunk));
  const closed = once(child, 'close');
  const steps: Step[] = [];
  for await (const line of createInterface({ input: child.stdout })) {
    const step = JSON.parse(line) as Step;
    steps.push(step);
    t.ok(step.ok, `${step.step} (${Math.round(step.ms)} ms)`, { error: step.error });
  }
  await closed;
  t.equal(steps.at(-1)?.step, 'end', Buffer.concat(errors).toString().slice(-2_000));
}
