/**
 * Anthropic's official SDKs, unmodified, against the Messages API of a service in a process of its own.
 */
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { startServiceProcess } from '../support/service-process.js';
import { pythonVenv } from './python-venv.js';
import { runScenario } from './services.js';

const node = fileURLToPath(new URL('./anthropic-node.js', import.meta.url));
const python = fileURLToPath(new URL('../../../test/sdk/anthropic_client.py', import.meta.url));

t.setTimeout(600_000);

const venv = await pythonVenv('anthropic-2.12.0', ['anthropic==2.12.0']);
const echo = await startServiceProcess(t, {});
const services = { env: { ECHO_URL: echo.url, ECHO_KEY: echo.key } };

t.test('Node SDK', async (t) => {
  await runScenario(t, process.execPath, [node], services);
});

t.test('Python SDK', { skip: 'missing' in venv ? venv.missing : false }, async (t) => {
  if ('python' in venv) await runScenario(t, venv.python, [python], services);
});
