/**
 * The guide of LibreChat, as far as it can be tried without MongoDB: its own schema reads the file.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { nodePackages } from '../../sdk/node-packages.js';
import { temporaryFolder } from '../../support/service.js';
import { blockOf, runBlock } from './guide.js';

const NAME = 'librechat-data-provider-0.8.524';
const PACKAGES = ['librechat-data-provider@0.8.524', 'js-yaml@4.1.1'];
const INSTALL_MS_MAX = 5 * 60_000;

t.setTimeout(INSTALL_MS_MAX);

const made = await nodePackages(NAME, PACKAGES, INSTALL_MS_MAX);

const READ = `
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
const require = createRequire(process.env.PACKAGES);
const { configSchema } = require('librechat-data-provider');
const config = require('js-yaml').load(readFileSync('librechat.yaml', 'utf8'));
const read = configSchema.strict().safeParse(config);
console.log(JSON.stringify(read.success ? read.data.endpoints.custom : read.error.issues));
`;

const skip = 'missing' in made ? made.missing : false;
t.test('its schema takes the file, with all of its fields', { skip }, async (t) => {
  if ('missing' in made) return;
  const place = { home: temporaryFolder(t), programs: [] };
  const yaml = blockOf('librechat', 'yaml');
  writeFileSync(join(place.home, 'librechat.yaml'), yaml);
  writeFileSync(join(place.home, 'read.mjs'), READ);
  const env = { PACKAGES: join(made.folder, 'package.json') };
  const [endpoint] = JSON.parse(await runBlock('node read.mjs', place, env)) as object[];
  t.match(endpoint, {
    name: 'preface',
    // biome-ignore lint/suspicious/noTemplateCurlyInString: LibreChat reads the variable's name so
    apiKey: '${OWN_SERVER_KEY}',
    baseURL: 'http://127.0.0.1:8080/v1',
    models: { default: ['svc-v1-auto'], fetch: true },
    titleConvo: true,
    titleModel: 'current_model',
    modelDisplayLabel: 'preface',
    headers: { 'X-LibreChat-User-Id': '{{LIBRECHAT_USER_ID}}' },
  });
});
