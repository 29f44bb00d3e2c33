/**
 * Embeddings, rankings and images through both official SDKs, oldest and newest, LangChain, llama-index and LiteLLM.
 */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { startServiceProcess } from '../support/service-process.js';
import { LANGCHAIN, LITELLM, pythonVenv, pythonVersions, type VenvWanted } from './python-venv.js';
import { runScenario } from './services.js';

const source = (name: string) => fileURLToPath(new URL(`../../../test/${name}`, import.meta.url));
const nodeSession = fileURLToPath(new URL('./vectors-node.js', import.meta.url));

/** Client → its script, and the environment it runs in. */
const LLAMA_INDEX = 'llama-index-embeddings-openai';
const python: readonly (readonly [string, VenvWanted])[] = [
  ...Object.entries(pythonVersions).map((wanted) => ['sdk/vectors.py', wanted] as const),
  ['harness/langchain_vectors.py', LANGCHAIN],
  ['harness/llama_index_vectors.py', [`${LLAMA_INDEX}-0.7.0`, [`${LLAMA_INDEX}==0.7.0`]]],
  ['harness/litellm_vectors.py', LITELLM],
];

/** Clients with a fixed name find a model of that name. */
const echo = { engine: 'echo', window: 2048 };
const models = {
  'text-embedding-3-small': { ...echo, kind: 'embedding' },
  ranker: { ...echo, kind: 'rerank' },
  seer: { ...echo, vision: true },
};

t.setTimeout(600_000);

t.test('vectors', async (t) => {
  const service = await startServiceProcess(t, { models });
  const image = readFileSync(source('documents/pictures/simple.png')).toString('base64');
  const env = { ECHO_URL: service.url, API_KEY: service.key, IMAGE: image };
  for (const name of ['openai4', 'openai']) {
    await t.test(`Node, ${name}`, async (t) => {
      await runScenario(t, process.execPath, [nodeSession, name], { env });
    });
  }
  for (const [script, wanted] of python) {
    const venv = await pythonVenv(...wanted);
    const skip = 'missing' in venv ? venv.missing : false;
    await t.test(`Python, ${wanted[0]}`, { skip }, async (t) => {
      if ('python' in venv) await runScenario(t, venv.python, [source(script)], { env });
    });
  }
});
