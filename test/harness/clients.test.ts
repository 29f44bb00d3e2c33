/**
 * Client libraries that are not OpenAI's own, unmodified, against a service in a process of its own.
 */
import { copyFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { nodePackages } from '../sdk/node-packages.js';
import { LANGCHAIN, LITELLM, pythonVenv } from '../sdk/python-venv.js';
import { runScenario } from '../sdk/services.js';
import { shallowSettings } from '../support/shallow-weights.js';
import { skipWithoutWeights } from '../support/weights.js';
import { startHarnessServices } from './services.js';

const source = (name: string) =>
  fileURLToPath(new URL(`../../../test/harness/${name}`, import.meta.url));
const aiSdk = fileURLToPath(new URL('./ai-sdk-scenario.js', import.meta.url));

/** A client, the script, and the environment it runs in. */
const python = [
  ['LangChain', 'langchain_client.py', LANGCHAIN],
  ['LiteLLM', 'litellm_client.py', LITELLM],
] as const;

const NEWEST_AI_SDK = ['ai@7.0.173', '@ai-sdk/openai-compatible@3.0.92', 'zod@4.6.7'];
const INSTALL_MS_MAX = 5 * 60_000;

t.setTimeout(900_000);

t.test('clients', { skip: skipWithoutWeights }, async (t: Test) => {
  // Tools and schemas hold what it says, and they are all that is asked of it.
  const services = await startHarnessServices(t, shallowSettings());
  await t.test('AI SDK 6', async (t) => {
    await runScenario(t, process.execPath, [aiSdk], services);
  });
  const newest = await nodePackages('ai-7.0.173', NEWEST_AI_SDK, INSTALL_MS_MAX);
  await t.test('AI SDK 7', { skip: 'missing' in newest && newest.missing }, async (t) => {
    if ('missing' in newest) return;
    // Packages are found from where the script lies.
    const copied = join(newest.folder, 'ai-sdk-scenario.js');
    copyFileSync(aiSdk, copied);
    await runScenario(t, process.execPath, [copied], services);
  });
  for (const [client, script, wanted] of python) {
    const venv = await pythonVenv(...wanted);
    const skip = 'missing' in venv ? venv.missing : false;
    await t.test(client, { skip }, async (t) => {
      if ('python' in venv) await runScenario(t, venv.python, [source(script)], services);
    });
  }
});
