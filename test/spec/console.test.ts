/** The operator's page in a real browser, by what is on it. */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { Browser, Page } from 'playwright-core';
import t, { type Test } from 'tap';
import { browserPath, faultsOf, openBrowser } from '../support/browser.js';
import { aliceKey, openService, type TestService } from '../support/service.js';
import { until } from '../support/until.js';

const ADMIN_KEY = 'key-of-the-operator';
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const VIEWS = ['overview', 'caches', 'files', 'users', 'playground'];
const HEADS = [
  ...['User', 'Cache', 'Tags', 'Status', 'Tokens', 'Saved', 'Hits', 'Time left', 'Last miss'],
];
/** What a stranger may call a file or a cache. */
const HOSTILE = '<img src=x onerror=document.title=1>.txt';

const path = browserPath();
t.setTimeout(240_000);

t.test('without an admin key there is no page', async (t) => {
  const service = await openService(t);
  t.equal((await fetch(new URL('/console', service.url))).status, 404);
});

t.test('the page says what a browser may do with it, and its files are a fixed list', async (t) => {
  const service = await openService(t, { PREFACE_ADMIN_KEY: ADMIN_KEY });
  const response = await fetch(new URL('/console', service.url));
  const policy = response.headers.get('content-security-policy') ?? '';
  t.match(policy, "default-src 'none'");
  t.match(policy, "script-src 'self'");
  t.match(policy, "frame-ancestors 'none'");
  t.notMatch(policy, /unsafe|https?:|\*/);
  for (const name of ['main.js', 'style.css', 'icon.svg']) {
    const file = await fetch(new URL(`/console/${name}`, service.url));
    t.equal(file.status, 200, name);
    t.equal(file.headers.get('x-content-type-options'), 'nosniff');
  }
  t.equal((await fetch(new URL('/console/%2e%2e/tsconfig.json', service.url))).status, 404);
});

t.test('the admin key opens the figures, a wrong one does not', async (t) => {
  const service = await openService(t, { PREFACE_ADMIN_KEY: ADMIN_KEY });
  const figures = async (key: string) =>
    (await fetch(new URL('/metrics', service.url), { headers: { authorization: `Bearer ${key}` } }))
      .status;
  t.equal(await figures(ADMIN_KEY), 200);
  t.equal(await figures(aliceKey), 401);
  t.equal((await fetch(new URL('/metrics', service.url))).status, 200, 'this machine needs none');
});

t.test('in a browser', { skip: path === null && 'no Chromium is installed' }, async (t) => {
  const browser = await openBrowser(t, path ?? '');
  const service = await openService(t, { PREFACE_ADMIN_KEY: ADMIN_KEY });
  await fill(service);

  t.test('a wrong key shows nothing', async (t) => {
    const { page } = await openPage(browser, service);
    await logIn(page, 'some-other-key-of-16');
    await page.getByText('That is not the admin key.').waitFor();
    t.notOk(await page.isVisible('#overview'));
    t.equal(await page.evaluate('sessionStorage.length'), 0);
    await page.close();
  });

  t.test('the service is seen at work', async (t) => {
    const { page, faults } = await openPage(browser, service);
    await logIn(page);
    await page.getByText('Models and their queues').waitFor();
    t.match(await page.textContent('#overview'), 'svc-v1-8k');
    await chats(service, 5);
    const requests = page.locator('.tile', { hasText: 'Requests a second' }).locator('strong');
    await requests.filter({ hasText: /[1-9]/ }).waitFor();
    await page
      .locator('.tile', { hasText: 'Time to first content' })
      .locator('strong')
      .filter({ hasText: /\d (ms|s) \/ / })
      .waitFor();
    for (const title of ['Prompt tokens a second', 'Tokens out a second']) {
      const figure = page.locator('.tile', { hasText: title }).locator('strong');
      await figure.filter({ hasText: /^[\d,.]*[1-9][\d,.]*$/ }).waitFor();
      const drawn = `${title} over two minutes, now `;
      t.match(await page.locator('.tile', { hasText: title }).innerHTML(), drawn);
    }
    t.same(faults, []);
    await page.close();
  });

  t.test('caches are shown with tags, hits, savings and the last miss', async (t) => {
    const { page } = await openPage(browser, service, '#caches');
    await logIn(page);
    const row = page.locator('#caches-view tbody tr', { hasText: 'handbook' });
    await row.waitFor();
    const cells = await row.locator('td').allTextContents();
    t.equal(cells[0], 'alice');
    t.same(cells.slice(2, 4), ['handbook', 'ready']);
    t.match(cells[4], /^[1-9][\d,]*$/, 'tokens');
    t.ok(Number(cells[5]?.replaceAll(',', '')) > 0, `saved ${cells[5]}`);
    t.equal(cells[6], '1');
    // Ten minutes were asked for.
    t.match(cells[7], /^([1-9]|10) min$|^[1-9]\d? s$/, 'time left');
    t.same(await page.locator('#caches-view th').allTextContents(), HEADS);
    t.match(cells[8], /messages\[0\]\.content differs/);
    await page.close();
  });

  t.test('names of strangers stay text', async (t) => {
    const { page, faults } = await openPage(browser, service, '#files');
    await logIn(page);
    await page.locator('#files-view tbody tr', { hasText: HOSTILE }).waitFor();
    await page.locator('#files-view .state.error').waitFor();
    await page.click('a[href="#caches"]');
    await page.locator('#caches-view tbody tr', { hasText: HOSTILE }).waitFor();
    t.equal(await page.title(), 'preface console');
    t.equal(await page.locator('main img, main script').count(), 0);
    t.same(faults, []);
    await page.close();
  });

  t.test('users are changed', async (t) => {
    const { page } = await openPage(browser, service, '#users');
    await logIn(page);
    const bob = page.locator('#users-view tbody tr', { hasText: 'bob' });
    await page.getByRole('button', { name: 'Suspend bob' }).click();
    await bob.locator('.state.suspended').waitFor();
    await page.getByRole('button', { name: 'Limits of bob' }).click();
    await page.getByLabel('Requests a minute').fill('7');
    await page.getByRole('button', { name: 'Save' }).click();
    await bob.getByText('7 requests').waitFor();
    await page.getByLabel('New user').fill('carol');
    await page.getByRole('button', { name: 'Create a key', exact: true }).click();
    const key = await page.locator('code.secret').textContent();
    t.match(key, /^sk-carol-/);
    await page.keyboard.press('Escape');
    await page.locator('#users-view tbody tr', { hasText: 'carol' }).waitFor();
    const models = new URL('/v1/models', service.url);
    const asCarol = { headers: { authorization: `Bearer ${key}` } };
    t.equal((await fetch(models, asCarol)).status, 200, 'the key works');
    await page.getByRole('button', { name: 'Keys of carol' }).click();
    await page.getByRole('button', { name: /^Revoke sk-carol/ }).click();
    await page.locator('dialog').waitFor({ state: 'hidden' });
    t.equal((await fetch(models, asCarol)).status, 401, 'and no more');
    await page.close();
  });

  t.test('a question is asked without and with a cache', async (t) => {
    const { page, faults } = await openPage(browser, service, '#playground');
    await logIn(page);
    await page.fill('#play-key', aliceKey);
    await page.click('#play-ask');
    await page.locator('#warm-note', { hasText: 'cache: hit' }).waitFor({ timeout: 60_000 });
    t.match(await page.textContent('#cold-note'), /^0 of [\d,]+ prompt tokens reused/);
    t.notMatch(await page.textContent('#warm-note'), /^0 of/);
    for (const side of ['cold', 'warm']) {
      t.match(await page.textContent(`#${side}-time`), /^[\d.]+ m?s$/);
      t.match(await page.textContent(`#${side}-text`), 'Who keeps the light?');
    }
    t.same(faults, []);
    await page.close();
  });

  t.test('the keyboard is enough', async (t) => {
    const { page } = await openPage(browser, service);
    await page.keyboard.type(ADMIN_KEY);
    await page.keyboard.press('Enter');
    await page.locator('#overview').waitFor();
    for (let i = 0; i < 20 && !(await isFocused(page, 'a[href="#files"]')); i += 1) {
      await page.keyboard.press('Tab');
    }
    await page.keyboard.press('Enter');
    await page.locator('#files').waitFor();
    t.equal(await page.getAttribute('a[href="#files"]', 'aria-current'), 'page');
    await page.close();
  });

  for (const look of [
    { colorScheme: 'dark', width: 390 },
    { colorScheme: 'light', width: 390 },
    { colorScheme: 'light', width: 1280 },
  ] as const) {
    t.test(`${look.colorScheme}, ${look.width} pixels: nobody is kept out`, async (t) => {
      const { page } = await openPage(browser, service, '', look);
      await checkAccess(t, page, 'login');
      await logIn(page);
      for (const view of VIEWS) {
        await page.click(`a[href="#${view}"]`);
        await page.locator(`#${view} :is(table, form)`).first().waitFor();
        await checkAccess(t, page, view);
        const over = await page.evaluate('document.documentElement.scrollWidth - innerWidth');
        t.ok(Number(over) <= 0, `${view} is ${over} pixels too wide`);
      }
      await page.close();
    });
  }
});

async function fill(service: TestService): Promise<void> {
  const prefix = [{ role: 'system', content: 'The light is kept by two people. '.repeat(20) }];
  const cache = { model: 'svc-v1', messages: prefix, ttl: 600, tags: ['handbook'] };
  const made = (await (await service.call('POST', '/caching', cache)).json()) as { id: string };
  await (await service.call('POST', '/caching', { ...cache, tags: [], name: HOSTILE })).text();
  const ask = async (messages: readonly object[]) => {
    const body = { model: 'svc-v1-8k', messages };
    const header = { 'x-svc-context-cache': made.id };
    await (await service.call('POST', '/chat/completions', body, header)).text();
  };
  await ready(service, made.id);
  const question = { role: 'user', content: 'Who?' };
  await ask([...prefix, question]);
  await ask([{ role: 'system', content: 'The lamp is kept by nobody.' }, question]);
  await upload(service, HOSTILE, 'plain text');
  await upload(
    service,
    'unknown.bin',
    Uint8Array.from({ length: 999 }, (_, i) => (i * i * 7 + i * 13) % 251),
  );
}

async function ready(service: TestService, id: string): Promise<void> {
  const status = async () =>
    ((await (await service.call('GET', `/caching/${id}`)).json()) as { status: string }).status;
  await until(async () => (await status()) !== 'pending');
}

async function upload(
  service: TestService,
  name: string,
  content: string | Uint8Array<ArrayBuffer>,
) {
  const form = new FormData();
  form.set('purpose', 'file-extract');
  form.set('file', new Blob([content]), name);
  const headers = { authorization: `Bearer ${aliceKey}` };
  const made = await fetch(`${service.url}/files`, { method: 'POST', headers, body: form });
  const { id } = (await made.json()) as { id: string };
  // It waits for the extraction.
  await (await service.call('GET', `/files/${id}/content`)).text();
}

async function chats(service: TestService, count: number): Promise<void> {
  for (let i = 0; i < count; i += 1) {
    const messages = [{ role: 'user', content: `question ${i}` }];
    await (
      await service.call('POST', '/chat/completions', { model: 'svc-v1-8k', messages })
    ).text();
  }
}

interface View {
  readonly width: number;
  readonly colorScheme: 'light' | 'dark';
}

async function openPage(
  browser: Browser,
  service: TestService,
  hash = '',
  { width, colorScheme }: View = { width: 1280, colorScheme: 'light' },
): Promise<{ page: Page; faults: string[] }> {
  const page = await browser.newPage({ viewport: { width, height: 900 }, colorScheme });
  const faults = faultsOf(page);
  await page.goto(new URL(`/console${hash}`, service.url).href);
  return { page, faults };
}

async function logIn(page: Page, key = ADMIN_KEY): Promise<void> {
  await page.fill('#key', key);
  await page.click('#login button');
  if (key === ADMIN_KEY) await page.locator('#views').waitFor();
}

async function isFocused(page: Page, selector: string): Promise<boolean> {
  return await page.locator(selector).evaluate((node) => node === node.ownerDocument.activeElement);
}

async function checkAccess(t: Test, page: Page, name: string): Promise<void> {
  await page.evaluate(AXE);
  const { violations } = (await page.evaluate('axe.run()')) as {
    readonly violations: readonly { readonly id: string; readonly nodes: readonly object[] }[];
  };
  t.same(
    violations.map(({ id, nodes }) => `${id}: ${JSON.stringify(nodes[0])}`),
    [],
    `${name} has no faults of access`,
  );
}
