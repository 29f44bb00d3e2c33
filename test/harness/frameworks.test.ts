/**
 * Agent frameworks, unmodified, against the echo engine: their loops, their tools, their structured outputs.
 * They run where they are installed, or with `TEST_HARNESSES=1`: together they bring gigabytes.
 */
import { copyFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { nodePackages, packagesAreReady } from '../sdk/node-packages.js';
import { pythonVenv, venvIsReady } from '../sdk/python-venv.js';
import { runScenario } from '../sdk/services.js';
import { startServiceProcess } from '../support/service-process.js';

const source = (name: string) =>
  fileURLToPath(new URL(`../../../test/harness/frameworks/${name}`, import.meta.url));

/** Framework → its script, and the environment it runs in. */
const frameworks = {
  'OpenAI Agents SDK': ['openai_agents.py', 'openai-agents-0.24.0', ['openai-agents==0.24.0']],
  'pydantic-ai': [
    'pydantic_ai_client.py',
    'pydantic-ai-2.68.0',
    ['pydantic-ai-slim[openai]==2.68.0'],
  ],
  instructor: ['instructor_client.py', 'instructor-1.17.0', ['instructor==1.17.0']],
  smolagents: ['smolagents_client.py', 'smolagents-1.26.0', ['smolagents[openai]==1.26.0']],
  'llama-index': [
    'llama_index_client.py',
    'llama-index-openai-like-0.8.1',
    ['llama-index-llms-openai-like==0.8.1'],
  ],
  agno: ['agno_client.py', 'agno-3.1.10', ['agno==3.1.10', 'openai==3.54.0']],
  autogen: [
    'autogen_client.py',
    'autogen-0.7.5',
    ['autogen-agentchat==0.7.5', 'autogen-ext[openai]==0.7.5'],
  ],
  crewAI: ['crewai_client.py', 'crewai-1.15.30', ['crewai==1.15.30']],
} as const;

const INSTALL_MS_MAX = 5.5 * 60_000;
t.setTimeout(Object.keys(frameworks).length * INSTALL_MS_MAX);

async function packagesFor(name: string, packages: readonly string[]) {
  if (process.env.TEST_HARNESSES === '1' || packagesAreReady(name)) {
    return await nodePackages(name, packages, INSTALL_MS_MAX);
  }
  return { missing: `TEST_HARNESSES=1 installs ${packages.join(', ')}` };
}

t.test('frameworks', async (t) => {
  const { url, key } = await startServiceProcess(t, {});
  const services = { env: { ECHO_URL: url, API_KEY: key } };
  for (const [framework, [script, name, packages]] of Object.entries(frameworks)) {
    const isWanted = process.env.TEST_HARNESSES === '1' || venvIsReady(name);
    const venv = isWanted
      ? await pythonVenv(name, packages, { installMsMax: INSTALL_MS_MAX })
      : { missing: `TEST_HARNESSES=1 installs ${packages.join(', ')}` };
    const skip = 'missing' in venv ? venv.missing : false;
    await t.test(framework, { skip }, async (t) => {
      if ('python' in venv) await runScenario(t, venv.python, [source(script)], services);
    });
  }
  const node = await packagesFor('openai-agents-js-0.20.0', ['@openai/agents@0.20.0', 'zod@4.6.7']);
  const skip = 'missing' in node ? node.missing : false;
  await t.test('OpenAI Agents SDK for JavaScript', { skip }, async (t) => {
    if ('missing' in node) return;
    // Packages are found from where the script lies.
    const script = join(node.folder, 'openai_agents.mjs');
    copyFileSync(source('openai_agents.mjs'), script);
    await runScenario(t, process.execPath, [script], services);
  });
});
