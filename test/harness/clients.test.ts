/**
 * Client libraries that are not OpenAI's own, unmodified, against a service in a process of its own.
 */
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { pythonVenv } from '../sdk/python-venv.js';
import { runScenario } from '../sdk/services.js';
import { skipWithoutWeights } from '../support/weights.js';
import { startHarnessServices } from './services.js';

const source = (name: string) =>
  fileURLToPath(new URL(`../../../test/harness/${name}`, import.meta.url));
const aiSdk = fileURLToPath(new URL('./ai-sdk-scenario.js', import.meta.url));

/** Client → the script, and the environment it runs in. */
const python = {
  LangChain: ['langchain_client.py', 'langchain-openai-1.6.0', ['langchain-openai==1.6.0']],
  LiteLLM: ['litellm_client.py', 'litellm-1.100.0', ['litellm==1.100.0']],
} as const;

t.setTimeout(600_000);

t.test('clients', { skip: skipWithoutWeights }, async (t: Test) => {
  const services = await startHarnessServices(t);
  await t.test('AI SDK', async (t) => {
    await runScenario(t, process.execPath, [aiSdk], services);
  });
  for (const [client, [script, name, packages]] of Object.entries(python)) {
    const venv = await pythonVenv(name, packages);
    const skip = 'missing' in venv ? venv.missing : false;
    await t.test(client, { skip }, async (t) => {
      if ('python' in venv) await runScenario(t, venv.python, ['-B', source(script)], services);
    });
  }
});
