/**
 * The guides of the coding agents: each agent, unmodified, with the very files and commands of its guide, on the echo engine.
 * They run where they are installed, or with `TEST_HARNESSES=1`.
 */
import { symlinkSync } from 'node:fs';
import { dirname, join } from 'node:path';
import t, { type Test } from 'tap';
import { nodePackages, packagesAreReady } from '../../sdk/node-packages.js';
import { temporaryFolder } from '../../support/service.js';
import { type ServiceProcess, startServiceProcess } from '../../support/service-process.js';
import { until } from '../../support/until.js';
import { npmTool } from '../npm-tool.js';
import { harnessVenv } from '../tool.js';
import { blockOf, endProcesses, filled, type Place, runBlock, writeIn } from './guide.js';

const INSTALL_MS_MAX = 5 * 60_000;
const CODEX = ['@openai/codex@0.169.0'];
const AIDER = { venv: 'aider-0.86.2', packages: ['aider-chat==0.86.2'] };

t.setTimeout(600_000);

type Programs = { readonly folders: readonly string[] } | { readonly missing: string };

/** Files of the guide, by the language of their block. */
type Files = Readonly<Record<string, string>>;

interface Agent {
  readonly guide: string;
  readonly files: Files;
  readonly says: RegExp;
  readonly route: string;
  programs(t: Test): Promise<Programs>;
}

const agents: readonly Agent[] = [
  {
    guide: 'claude-code',
    files: {},
    says: /\S/,
    route: 'POST /v1/messages',
    programs: claudeCode,
  },
  {
    guide: 'codex',
    files: { toml: '.codex/config.toml' },
    says: /^Say hello$/m,
    route: 'POST /v1/responses',
    async programs() {
      const name = 'codex-0.169.0';
      if (process.env.TEST_HARNESSES !== '1' && !packagesAreReady(name)) {
        return { missing: `TEST_HARNESSES=1 installs ${CODEX}` };
      }
      return binOf(await nodePackages(name, CODEX, INSTALL_MS_MAX));
    },
  },
  {
    guide: 'continue',
    files: { yaml: '.continue/config.yaml' },
    says: /^Say hello$/m,
    route: 'POST /v1/chat/completions',
    programs: async () => binOf(await npmTool('@continuedev/cli', '1.5.47')),
  },
  {
    guide: 'cline',
    files: {},
    says: /Say hello/,
    route: 'POST /v1/chat/completions',
    programs: async () => binOf(await npmTool('cline', '3.0.65')),
  },
  {
    guide: 'aider',
    files: { yaml: '.aider.conf.yml', jsonc: '.aider.model.metadata.json' },
    says: /Say hello/,
    route: 'POST /v1/chat/completions',
    async programs() {
      const venv = await harnessVenv(AIDER);
      return 'missing' in venv ? venv : { folders: [dirname(venv.python)] };
    },
  },
];

t.test('coding agents', async (t) => {
  const service = await startServiceProcess(t, {});
  for (const agent of agents) {
    const found = await agent.programs(t);
    const skip = 'missing' in found ? found.missing : false;
    await t.test(agent.guide, { skip }, async (t) => {
      if ('folders' in found) await tried(t, agent, found.folders, service);
    });
  }
});

async function tried(
  t: Test,
  { guide, files, says, route }: Agent,
  programs: readonly string[],
  service: ServiceProcess,
): Promise<void> {
  const place: Place = { home: temporaryFolder(t), programs };
  t.teardown(() => endProcesses(place));
  for (const [language, path] of Object.entries(files)) {
    writeIn(place, path, filled(blockOf(guide, language), service));
  }
  const before = answered(service, route);
  const said = await runBlock(filled(blockOf(guide, 'sh'), service), place);
  t.match(said, says);
  // The line of the log comes after the answer.
  await until(() => answered(service, route) > before, 60_000, `an answer by ${route}`);
  t.same(refused(service), [], 'and nothing of it was refused');
}

function binOf(made: { readonly folder: string } | { readonly missing: string }): Programs {
  return 'missing' in made ? made : { folders: [join(made.folder, 'node_modules/.bin')] };
}

/** Its program lies in a package of the machine, where its own script would link it to. */
async function claudeCode(t: Test): Promise<Programs> {
  const made = await npmTool('@anthropic-ai/claude-code', '2.1.330');
  if ('missing' in made) return made;
  const packages = join(made.folder, 'node_modules/@anthropic-ai');
  const folder = temporaryFolder(t);
  const program = join(packages, `claude-code-${process.platform}-${process.arch}/claude`);
  symlinkSync(program, join(folder, 'claude'));
  return { folders: [folder] };
}

interface Logged {
  readonly route?: string;
  readonly status?: number;
}

function logged({ log }: ServiceProcess): Logged[] {
  const lines = log()
    .split('\n')
    // The last one may not be whole yet.
    .slice(0, -1)
    .filter((line) => line.startsWith('{'));
  return lines.map((line) => JSON.parse(line) as Logged).filter(({ route }) => route !== undefined);
}

function answered(service: ServiceProcess, wanted: string): number {
  return logged(service).filter(({ route, status }) => route === wanted && status === 200).length;
}

/** What an agent asks for that no guide speaks of (a route that is not there) is no fault of its chats. */
function refused(service: ServiceProcess): Logged[] {
  return logged(service).filter(({ status = 0 }) => status >= 400 && status !== 404);
}
