/**
 * Owns LiteLLM's proxy beside ours: found on the path, given the same upstream and one worker.
 * It must never be required: without it, the bench says that it is missing.
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { until } from '../../test/support/until.js';
import { MODEL } from './chat.js';
import { freePort } from './free-port.js';
import { executablePath } from './llama-server.js';
import { endProcess, treeOf } from './processes.js';
import { KEY, type Server } from './servers.js';

const START_MS_MAX = 180_000;

export const MISSING =
  "LiteLLM is not on the PATH, so it is left out; `pip install 'litellm[proxy]'` brings it.";

export const litellmPath = (): string | null => executablePath('litellm');

export async function startLitellm({ path, url }: { path: string; url: string }): Promise<Server> {
  const folder = mkdtempSync(join(tmpdir(), 'preface-litellm-'));
  const file = join(folder, 'config.yaml');
  const upstream = { model: `openai/${MODEL}`, api_base: url, api_key: KEY };
  // JSON is YAML.
  const models = [{ model_name: MODEL, litellm_params: upstream }];
  writeFileSync(file, JSON.stringify({ model_list: models }));
  const port = await freePort();
  const startedMs = performance.now();
  const args = ['--config', file, '--host', '127.0.0.1', '--port', String(port)];
  const env = {
    ...process.env,
    LITELLM_TELEMETRY: 'False',
    LITELLM_LOCAL_MODEL_COST_MAP: 'True',
    // It checks no key, which saves it work.
    LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY: 'true',
  };
  const child = spawn(path, [...args, '--num_workers', '1'], { stdio: 'ignore', env });
  const close = () =>
    endProcess(child).finally(() => rmSync(folder, { recursive: true, force: true }));
  const pid = child.pid ?? 0;
  const lives = () => child.exitCode === null && child.signalCode === null;
  if (!(await answers(port, lives))) {
    await close();
    throw new Error('LiteLLM does not become healthy');
  }
  return { port, pid, startMs: performance.now() - startedMs, tree: () => treeOf(pid), close };
}

async function answers(port: number, lives: () => boolean): Promise<boolean> {
  const url = `http://127.0.0.1:${port}/health/liveliness`;
  const healthy = async (): Promise<boolean> => {
    if (!lives()) throw new Error('it has ended');
    const response = await fetch(url).catch(() => null);
    await response?.arrayBuffer();
    return response?.status === 200;
  };
  return await until(healthy, START_MS_MAX).catch(() => false);
}
