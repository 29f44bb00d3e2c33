/**
 * The snippets of the documents are run as they stand there, by curl and both official SDKs, and print what they promise.
 */
import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { pageOf, root, sectionOf, snippetsOf } from '../support/pages.js';
import { temporaryFolder } from '../support/service.js';
import { startServiceProcess } from '../support/service-process.js';
import { compiledOnce, pythonVenv, pythonVersions } from './python-venv.js';

t.setTimeout(300_000);

const run = promisify(execFile);
const RUN_MS_MAX = 120_000;
const readme = pageOf('README.md').text;
const api = pageOf('src/http/README.md').text;
const handbook = Array.from({ length: 40 }, (_, at) => `Key ${at * 7} opens room ${at}.\n`).join(
  '',
);

/** What the README promises: the oldest that runs its examples. */
const oldest = ['openai-1.12.0', ['openai==1.12.0', 'httpx<0.28']] as const;
const newest = Object.entries(pythonVersions).at(-1) ?? ['', []];
const venvs = [await pythonVenv(...oldest), await pythonVenv(...newest)];

/** The last snippet of a section in that language: the ones before it prepare the shell. */
function snippet(page: string, heading: string, language: string): string {
  const found = snippetsOf(sectionOf(page, heading)).filter((each) => each.language === language);
  return found.at(-1)?.code ?? '';
}

function linesOfCaches(t: Test, lines: readonly string[]): string[] {
  const saved = new Set(lines.filter((_, at) => at % 2 === 0 && at < 20));
  const asked = lines.filter((_, at) => at % 2 === 1 && at < 20);
  t.equal(asked.length, 10);
  for (const [at, line] of asked.entries()) t.equal(line, `Which key opens room ${at + 1}?`);
  t.equal(saved.size, 1, 'each saved as much');
  t.match([...saved][0], /^hit \d{3,}$/);
  return lines.slice(20);
}

t.test('snippets', async (t) => {
  const service = await startServiceProcess(t, {});
  const file = join(temporaryFolder(t), 'handbook.txt');
  writeFileSync(file, handbook);
  const env = {
    PATH: process.env.PATH,
    HOME: process.env.HOME,
    ...compiledOnce,
    OPENAI_API_KEY: service.key,
    OPENAI_BASE_URL: service.url,
  };
  /** What it printed; only the path of the file is another. */
  const printed = async (command: string, option: readonly string[], code: string) => {
    const args = [...option, code.replaceAll('handbook.txt', file)];
    const ran = await run(command, args, { env, cwd: root, timeout: RUN_MS_MAX });
    return ran.stdout.trim().split('\n');
  };
  const byNode = (code: string) => printed(process.execPath, ['--input-type=module', '-e'], code);
  const byShell = (code: string) => printed('sh', ['-c'], code);
  /** Each version takes a turn. */
  const inPython = async (
    name: string,
    code: string,
    check: (t: Test, lines: string[]) => void,
  ) => {
    for (const venv of venvs) {
      const skip = 'missing' in venv ? venv.missing : false;
      await t.test(`${name} in Python`, { skip }, async (t) => {
        if ('python' in venv) check(t, await printed(venv.python, ['-c'], code));
      });
    }
  };
  const firstAnswer = '## From the clone to a streamed answer';

  await t.test('the first answer by curl', async (t) => {
    const events = (await byShell(snippet(readme, firstAnswer, 'sh'))).filter(
      (line) => line !== '',
    );
    t.equal(events.at(-1), 'data: [DONE]');
    const text = events
      .slice(0, -1)
      .map((line) => JSON.parse(line.slice('data: '.length)).choices[0].delta.content ?? '');
    t.equal(text.join(''), 'Why is the sky blue?');
  });
  await t.test('the first answer in Node', async (t) => {
    t.same(await byNode(snippet(readme, firstAnswer, 'js')), ['Name three rivers.']);
  });
  await inPython('the first answer', snippet(readme, firstAnswer, 'python'), (t, lines) => {
    t.same(lines, ['Name three rivers.']);
  });
  await t.test('caches in Node', async (t) => {
    const rest = linesOfCaches(t, await byNode(snippet(api, '## Context caches', 'js')));
    t.strictSame(rest, []);
  });
  await inPython('caches', snippet(readme, '## Context caches', 'python'), (t, lines) => {
    const [byMessage = '', dry] = linesOfCaches(t, lines);
    t.match(byMessage, /^\d{3,} Who keeps the light\?$/);
    t.equal(dry, 'miss messages[0].content differs at character 2');
  });
  await t.test('files by curl', async (t) => {
    const lines = await byShell(snippet(api, '## Files', 'sh'));
    t.equal(JSON.parse(lines.join('\n')).content, handbook);
  });
  await t.test('files in Node', async (t) => {
    const lines = await byNode(snippet(api, '## Files', 'js'));
    t.equal(JSON.parse(lines.join('\n')).content, handbook);
  });
  await inPython('files', snippet(api, '## Files', 'python'), (t, lines) => {
    t.ok(lines.length >= 1);
    for (const line of lines) t.match(line, /^\w+ handbook\.txt \d+ ok ?/);
  });
});
