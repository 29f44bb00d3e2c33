/**
 * Owns the proof that the README leads a stranger from the first start to a hit in the console, and on to weights of their own.
 * It must never use a key, an address or a line that the service and the README do not give.
 */
import { copyFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Locator, Page } from 'playwright-core';
import t, { type Test } from 'tap';
import { filled, type Place, runBlock } from '../harness/guides/guide.js';
import { pythonVenv, pythonVersions } from '../sdk/python-venv.js';
import { browserPath, checkAccess, openBrowser } from '../support/browser.js';
import { logIn, openConsole } from '../support/console-page.js';
import { pageOf, root, sectionOf, snippetsOf } from '../support/pages.js';
import { temporaryFolder } from '../support/service.js';
import { type ServiceProcess, startServiceProcess } from '../support/service-process.js';
import { TINY_TEMPLATE, writeTinyModel } from '../support/tiny-models.js';

t.setTimeout(300_000);

const readme = pageOf('README.md').text;
const [name = '', packages = []] = Object.entries(pythonVersions).at(-1) ?? [];
const venv = await pythonVenv(name, packages);
const path = browserPath();

function blockOf(heading: string, language: string, at: number): string {
  const blocks = snippetsOf(sectionOf(readme, heading)).filter(
    (each) => each.language === language,
  );
  return blocks.at(at)?.code ?? '';
}

/** What the first start prints, by the words before it. */
function printedBy(service: ServiceProcess, words: string): string {
  const found = new RegExp(`^${words}: (\\S+)$`, 'm').exec(service.said())?.[1];
  if (found === undefined) throw new Error(`no ${words} in ${service.said()}`);
  return found;
}

/** As on a machine where nothing was ever set. */
function firstStart(t: Test, env: Readonly<Record<string, string>>): Promise<ServiceProcess> {
  return startServiceProcess(t, {}, { PREFACE_API_KEYS: '', ...env });
}

/** With the address and the key that it printed. */
async function openPrinted(
  t: Test,
  service: ServiceProcess,
): Promise<{ page: Page; faults: string[] }> {
  const browser = await openBrowser(t, path ?? '');
  const url = printedBy(service, 'console');
  t.equal(new URL(url).pathname, '/console');
  const opened = await openConsole(browser, { url });
  await logIn(opened.page, printedBy(service, 'admin key of the console, shown only now'));
  return opened;
}

async function numberIn(cell: Locator): Promise<number> {
  return Number((await cell.textContent())?.replaceAll(',', ''));
}

const missing = 'missing' in venv ? venv.missing : path === null && 'no Chromium is installed';

t.test(
  'the examples of the README, and what the console tells of them',
  { skip: missing },
  async (t) => {
    const service = await firstStart(t, {});
    const key = printedBy(service, 'API key of the first user, shown only now');
    const home = temporaryFolder(t);
    copyFileSync(join(root, 'LICENSE'), join(home, 'LICENSE'));
    writeFileSync(join(home, 'caches.py'), blockOf('## Context caches', 'python', 0));
    const programs = 'python' in venv ? [dirname(venv.python)] : [];
    const place: Place = { home, programs };
    const session = (code: string) => {
      const variables = blockOf('## From the clone to a streamed answer', 'sh', 1);
      return runBlock(filled(`${variables}\n${code}`, { url: service.url, key }), place);
    };
    t.match(
      await session(blockOf('## From the clone to a streamed answer', 'sh', 2)),
      'data: [DONE]',
      'a streamed answer',
    );
    const document = /`(head -c \d+ LICENSE > handbook\.txt)`/.exec(readme)?.[1] ?? '';
    const lines = (await session(`${document}\npython caches.py`)).trim().split('\n');
    const hits = lines.flatMap((line) => /^hit (\d+)$/.exec(line)?.slice(1).map(Number) ?? []);
    t.equal(hits.length, 10);
    const byMessage = Number(/^(\d+) Who keeps the light\?$/.exec(lines.at(-2) ?? '')?.[1]);
    const saved = [...hits, byMessage].reduce((sum, each) => sum + each, 0);
    t.ok(saved > 11 * 1_000, `${saved} tokens saved`);

    const { page, faults } = await openPrinted(t, service);
    await page
      .getByRole('img', { name: /^Reuse: 11 of \d+ named caches hit, [\d.]+ % of/ })
      .waitFor();
    const outcomes = page.locator('table', { hasText: 'Context caches in chats, since the start' });
    const ofHits = outcomes.locator('tbody tr', { hasText: 'hit' }).locator('td').last();
    t.equal(await numberIn(ofHits), 11);
    await checkAccess(t, page, 'the overview');

    await page.getByRole('link', { name: 'Caches' }).click();
    const cache = page.locator('#caches-view tbody tr', { hasText: 'handbook' });
    await cache.getByText('ready').waitFor();
    t.equal(await numberIn(cache.locator('td').nth(6)), saved, 'saved');
    t.equal(await numberIn(cache.locator('td').nth(7)), 11, 'hits');

    await page.getByRole('link', { name: 'Requests' }).click();
    await page.locator('#requests-view').getByRole('searchbox').fill('chat/completions hit');
    const rows = page.locator('#requests-view tbody tr');
    await page.getByText(/^11 of the newest \d+ requests/).waitFor();
    const shown = await Promise.all(
      (await rows.all()).map(async (row) => ({
        saved: await numberIn(row.locator('td').nth(5)),
        outcome: await row.locator('td').nth(7).textContent(),
      })),
    );
    t.same(
      shown.map(({ saved }) => saved).sort(),
      [...hits, byMessage].sort(),
      'each row has what its program printed',
    );
    t.ok(shown.every(({ outcome }) => outcome === 'hit'));
    t.same(faults, []);
  },
);

t.test('weights of their own', { skip: path === null && 'no Chromium is installed' }, async (t) => {
  const file = join(temporaryFolder(t), 'model.gguf');
  await writeTinyModel(file, 'llama', { facts: [TINY_TEMPLATE] });
  const service = await firstStart(t, { PREFACE_WEIGHTS: file, PREFACE_MEMORY: '256MiB' });
  const { page } = await openPrinted(t, service);
  await page.getByRole('link', { name: 'Models' }).click();
  const row = page.locator('#models-view tbody tr', { hasText: 'model' }).first();
  await row.getByText('loaded').waitFor();
  t.match(await row.textContent(), 'engine-llama');
});
