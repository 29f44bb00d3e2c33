/**
 * The guides of the libraries: their snippets as they stand there, on the echo engine.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import {
  compiledOnce,
  LANGCHAIN,
  pythonVenv,
  pythonVersions,
  type Venv,
} from '../../sdk/python-venv.js';
import { temporaryFolder } from '../../support/service.js';
import { type ServiceProcess, startServiceProcess } from '../../support/service-process.js';
import { harnessVenv } from '../tool.js';
import { blocksOf, filled, runBlock } from './guide.js';

t.setTimeout(600_000);

const rooms = Array.from({ length: 40 }, (_, at) => `Key ${at * 7} opens room ${at}.\n`).join('');

/** What each Python block of a guide printed, in their order. */
async function printed(
  t: Test,
  guide: string,
  python: string,
  service: ServiceProcess,
): Promise<string[][]> {
  const home = temporaryFolder(t);
  writeFileSync(join(home, 'handbook.txt'), rooms);
  writeFileSync(join(home, 'examples.txt'), rooms);
  const own = { OPENAI_API_KEY: service.key, OPENAI_BASE_URL: service.url, PYTHON: python };
  const env = { ...own, ...compiledOnce };
  const lines: string[][] = [];
  for (const [at, code] of blocksOf(guide, 'python').entries()) {
    writeFileSync(join(home, `block-${at}.py`), filled(code, service));
    const out = await runBlock(`"$PYTHON" block-${at}.py`, { home, programs: [] }, env);
    lines.push(out.trim().split('\n'));
  }
  return lines;
}

type Check = (t: Test, blocks: readonly string[][]) => void;

async function tried(
  { t, service }: { readonly t: Test; readonly service: ServiceProcess },
  guide: string,
  venv: Venv,
  check: Check,
): Promise<void> {
  const skip = 'missing' in venv ? venv.missing : false;
  await t.test(guide, { skip }, async (t) => {
    if ('python' in venv) check(t, await printed(t, guide, venv.python, service));
  });
}

function checkLibrary(t: Test, [first, cached]: readonly string[][]): void {
  t.same(first, ['Name three rivers.']);
  t.equal(cached?.length, 3);
  for (const [at, line] of (cached ?? []).entries()) {
    t.match(line, new RegExp(`^\\d{3,} Which key opens room ${at + 1}\\?$`));
  }
}

t.test('libraries', async (t) => {
  const service = await startServiceProcess(t, {});
  const place = { t, service };
  await tried(place, 'langchain', await pythonVenv(...LANGCHAIN), checkLibrary);
  const llamaIndex = {
    venv: 'llama-index-openai-like-0.8.1',
    packages: ['llama-index-llms-openai-like==0.8.1'],
  };
  await tried(place, 'llama-index', await harnessVenv(llamaIndex), checkLibrary);

  const newest = Object.entries(pythonVersions).at(-1) ?? ['', []];
  const openai = await pythonVenv(...newest);

  await tried(place, 'cookbook-document', openai, (t, [lines = []]) => {
    t.equal(lines.length, 5);
    for (const line of lines) t.match(line, /^hit \d{3,} Which key opens room \d\?$/);
  });
  await tried(place, 'cookbook-few-shot', openai, (t, [lines = []]) => {
    t.equal(lines.length, 2);
    for (const line of lines) t.match(line, /^\d{4,} 2$/);
  });
  await tried(place, 'cookbook-agents', openai, (t, [lines = []]) => {
    t.equal(lines.length, 2);
    for (const line of lines) t.match(line, /^hit \d{3,}$/);
  });
  await tried(place, 'cookbook-handbook', openai, (t, [lines = []]) => {
    t.equal(lines.length, 3);
    for (const line of lines) t.match(line, /^\d{3,} I am \w+\. Which key opens room 3\?$/);
  });
});
