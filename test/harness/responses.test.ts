/**
 * Clients of the Responses API, unmodified: the SDKs, the frameworks by their default, and Codex.
 * They run where they are installed, or with `TEST_HARNESSES=1`: together they bring gigabytes.
 */
import { execFile } from 'node:child_process';
import { copyFileSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { nodePackages, packagesAreReady } from '../sdk/node-packages.js';
import { pythonVenv, pythonVersions, venvIsReady } from '../sdk/python-venv.js';
import { runScenario, type SdkServices } from '../sdk/services.js';
import { skipWithoutWeights } from '../support/weights.js';
import { startHarnessServices } from './services.js';

const INSTALL_MS_MAX = 5.5 * 60_000;
t.setTimeout(8 * INSTALL_MS_MAX);

const source = (name: string) =>
  fileURLToPath(new URL(`../../../test/harness/frameworks/${name}`, import.meta.url));
const isWanted = process.env.TEST_HARNESSES === '1';

const SDK = 'openai-3.54.0';
const AGENTS = 'openai-agents-0.24.0';
const PYDANTIC = 'pydantic-ai-2.68.0';

/** Client → its script, and the environment it runs in. */
const python = {
  'OpenAI SDK for Python': ['openai_responses.py', SDK, pythonVersions[SDK] ?? []],
  'OpenAI Agents SDK': ['openai_agents_responses.py', AGENTS, ['openai-agents==0.24.0']],
  'pydantic-ai': ['pydantic_ai_responses.py', PYDANTIC, ['pydantic-ai-slim[openai]==2.68.0']],
} as const;

const node = {
  'OpenAI SDK for JavaScript': ['openai_responses.mjs', 'openai-js-7.57.0', ['openai@7.57.0']],
  'OpenAI Agents SDK for JavaScript': [
    'openai_agents_responses.mjs',
    'openai-agents-js-0.20.0',
    ['@openai/agents@0.20.0', 'zod@4.6.7'],
  ],
  'AI SDK': [
    'ai_sdk_openai.mjs',
    'ai-sdk-openai-4.0.118',
    ['@ai-sdk/openai@4.0.118', 'ai@7.0.173', 'zod@4.6.7'],
  ],
} as const;

async function venvFor(name: string, packages: readonly string[]) {
  return isWanted || venvIsReady(name)
    ? await pythonVenv(name, packages, { installMsMax: INSTALL_MS_MAX })
    : { missing: `TEST_HARNESSES=1 installs ${packages.join(', ')}` };
}

async function packagesFor(name: string, packages: readonly string[]) {
  return isWanted || packagesAreReady(name)
    ? await nodePackages(name, packages, INSTALL_MS_MAX)
    : { missing: `TEST_HARNESSES=1 installs ${packages.join(', ')}` };
}

t.test('clients of the Responses API', { skip: skipWithoutWeights }, async (t) => {
  const services = await startHarnessServices(t);
  for (const [client, [script, name, packages]] of Object.entries(python)) {
    const venv = await venvFor(name, packages);
    const skip = 'missing' in venv ? venv.missing : false;
    await t.test(client, { skip }, async (t) => {
      if ('python' in venv) await runScenario(t, venv.python, [source(script)], services);
    });
  }
  for (const [client, [script, name, packages]] of Object.entries(node)) {
    const made = await packagesFor(name, packages);
    const skip = 'missing' in made ? made.missing : false;
    await t.test(client, { skip }, async (t) => {
      if ('missing' in made) return;
      // Packages are found from where the script lies.
      const copied = join(made.folder, script);
      copyFileSync(source(script), copied);
      await runScenario(t, process.execPath, [copied], services);
    });
  }
  await codex(t, services);
});

const CODEX = '0.169.0';
const CODEX_MS_MAX = 60_000;

async function codex(t: Test, { env }: SdkServices): Promise<void> {
  const made = await packagesFor(`codex-${CODEX}`, [`@openai/codex@${CODEX}`]);
  const skip = 'missing' in made ? made.missing : false;
  await t.test('Codex CLI', { skip }, async (t) => {
    if ('missing' in made) return;
    const home = join(made.folder, 'home');
    t.teardown(() => rmSync(home, { recursive: true, force: true }));
    for (const [over, more] of Object.entries(transports)) {
      const ask = codexAt(made.folder, home, env, more);
      const plain = await ask('Hello you');
      t.match(plain.at(-2), { item: { type: 'agent_message', text: 'Hello you' } }, over);
      // The echo engine repeats the call, and then what the command gave.
      const call = { name: 'exec_command', arguments: { cmd: 'echo it works' } };
      const called = await ask(`<tool_call>${JSON.stringify(call)}</tool_call>`);
      t.match(called.at(-2), { item: { type: 'agent_message', text: /it works/ } }, over);
      const { usage } = called.at(-1) as { usage: { cached_input_tokens: number } };
      t.ok(usage.cached_input_tokens > 10_000, 'the second request goes on from the first');
      // A function of a group: what comes back tells that its own handler took it.
      const grouped = { name: 'multi_agent_v1__close_agent', arguments: { target: 'nobody' } };
      const closed = await ask(`<tool_call>${JSON.stringify(grouped)}</tool_call>`);
      t.match(closed.at(-2), { item: { type: 'agent_message', text: /agent/ } }, over);
      t.notMatch(closed.at(-2), { item: { text: /unsupported/ } }, over);
    }
  });
}

const transports = { HTTP: '', WebSocket: 'supports_websockets = true\n' };

const settings = (url: string, more: string) => `
model = "svc-v1-128k"
model_provider = "preface"
[model_providers.preface]
name = "preface"
base_url = "${url}"
env_key = "API_KEY"
wire_api = "responses"
${more}`;

function codexAt(
  folder: string,
  home: string,
  { API_KEY, ECHO_URL }: SdkServices['env'],
  more: string,
) {
  mkdirSync(home, { recursive: true });
  writeFileSync(join(home, 'config.toml'), settings(`${ECHO_URL}`, more));
  const program = join(folder, 'node_modules/@openai/codex/bin/codex.js');
  const env = { PATH: process.env.PATH, HOME: home, CODEX_HOME: home, API_KEY };
  const options = ['exec', '--json', '--skip-git-repo-check', '--sandbox', 'danger-full-access'];
  return async (prompt: string): Promise<readonly object[]> => {
    const args = [program, ...options, prompt];
    const running = promisify(execFile)(process.execPath, args, {
      env,
      cwd: home,
      timeout: CODEX_MS_MAX,
    });
    running.child.stdin?.end();
    const { stdout } = await running;
    return stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as object);
  };
}
