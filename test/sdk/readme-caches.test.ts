/**
 * The guide to caches in the README is run as it stands there, by both official SDKs: every chat of it is a hit.
 */
import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { temporaryFolder } from '../support/service.js';
import { startServiceProcess } from '../support/service-process.js';
import { pythonVenv, pythonVersions } from './python-venv.js';

t.setTimeout(300_000);

const run = promisify(execFile);
const RUN_MS_MAX = 120_000;
const root = fileURLToPath(new URL('../../../', import.meta.url));
const readme = readFileSync(join(root, 'README.md'), 'utf8');
const section = /\n## Context caches\n[\s\S]*?\n## /.exec(readme)?.[0] ?? '';
const handbook = Array.from({ length: 40 }, (_, at) => `Key ${at * 7} opens room ${at}.\n`).join(
  '',
);

t.test('the guide of the README', async (t) => {
  const service = await startServiceProcess(t, {});
  const file = join(temporaryFolder(t), 'handbook.txt');
  writeFileSync(file, handbook);
  const env = {
    PATH: process.env.PATH,
    HOME: process.env.HOME,
    OPENAI_API_KEY: service.key,
    OPENAI_BASE_URL: service.url,
  };
  /** What it printed; only the path of the file is another. */
  const printed = async (command: string, option: readonly string[], language: string) => {
    const code = new RegExp(`\`\`\`${language}\\n([\\s\\S]*?)\`\`\``).exec(section)?.[1] ?? '';
    const args = [...option, code.replaceAll('handbook.txt', file)];
    const ran = await run(command, args, { env, cwd: root, timeout: RUN_MS_MAX });
    return ran.stdout.trim().split('\n');
  };
  const tenHits = (t: Test, lines: readonly string[]): string[] => {
    const saved = new Set(lines.filter((_, at) => at % 2 === 0 && at < 20));
    const asked = lines.filter((_, at) => at % 2 === 1 && at < 20);
    t.equal(asked.length, 10);
    for (const [at, line] of asked.entries()) t.equal(line, `Which key opens room ${at + 1}?`);
    t.equal(saved.size, 1, 'each saved as much');
    t.match([...saved][0], /^hit \d{3,}$/);
    return lines.slice(20);
  };
  await t.test('Node', async (t) => {
    const rest = tenHits(t, await printed(process.execPath, ['--input-type=module', '-e'], 'js'));
    t.strictSame(rest, []);
  });
  const newest = Object.entries(pythonVersions).at(-1) ?? ['', []];
  const venv = await pythonVenv(...newest);
  const skip = 'missing' in venv ? venv.missing : false;
  await t.test('Python', { skip }, async (t) => {
    const python = 'python' in venv ? venv.python : '';
    const [byMessage = ''] = tenHits(t, await printed(python, ['-c'], 'python'));
    t.match(byMessage, /cached_tokens=\d{3,}.* Who keeps the light\?$/);
  });
});
