/**
 * A whole session with a cache through both official SDKs, oldest and newest: one document, ten questions.
 */
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { skipWithoutWeights } from '../support/weights.js';
import { pythonVenv, pythonVersions } from './python-venv.js';
import { runScenario, startSdkServices } from './services.js';

const nodeSession = fileURLToPath(new URL('./caches-node.js', import.meta.url));
const pythonSession = fileURLToPath(new URL('../../../test/sdk/caches.py', import.meta.url));

t.setTimeout(1_200_000);

t.test('a session with a cache', { skip: skipWithoutWeights }, async (t) => {
  const services = await startSdkServices(t);
  for (const name of ['openai4', 'openai']) {
    await t.test(`Node, ${name}`, async (t) => {
      await runScenario(t, process.execPath, [nodeSession, name], services);
    });
  }
  for (const [name, packages] of Object.entries(pythonVersions)) {
    const venv = await pythonVenv(name, packages);
    const skip = 'missing' in venv ? venv.missing : false;
    await t.test(`Python, ${name}`, { skip }, async (t) => {
      if ('python' in venv) await runScenario(t, venv.python, [pythonSession], services);
    });
  }
});
