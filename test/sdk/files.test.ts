/**
 * Files through both official SDKs, oldest and newest: uploaded, listed to the end, read and deleted.
 */
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { startServiceProcess } from '../support/service-process.js';
import { pythonVenv, pythonVersions } from './python-venv.js';
import { runScenario } from './services.js';

const nodeSession = fileURLToPath(new URL('./files-node.js', import.meta.url));
const pythonSession = fileURLToPath(new URL('../../../test/sdk/files.py', import.meta.url));

t.setTimeout(600_000);

t.test('files', async (t) => {
  const service = await startServiceProcess(t, {});
  const env = { FILES_URL: service.url, API_KEY: service.key };
  for (const name of ['openai4', 'openai']) {
    await t.test(`Node, ${name}`, async (t) => {
      await runScenario(t, process.execPath, [nodeSession, name], { env });
    });
  }
  for (const [name, packages] of Object.entries(pythonVersions)) {
    const venv = await pythonVenv(name, packages);
    const skip = 'missing' in venv ? venv.missing : false;
    await t.test(`Python, ${name}`, { skip }, async (t) => {
      if ('python' in venv) await runScenario(t, venv.python, [pythonSession], { env });
    });
  }
});
