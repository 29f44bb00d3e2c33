/** The page at the address of the service: what a person sees first, and that its first steps work as they stand there. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import t from 'tap';
import { browserPath, faultsOf, openBrowser } from '../support/browser.js';
import { aliceKey, openService } from '../support/service.js';

const run = promisify(execFile);
const service = await openService(t);
const home = new URL('/', service.url);

async function pageAs(headers: Record<string, string>): Promise<string> {
  // `fetch` sets the host itself.
  const args = Object.entries(headers).flatMap(([name, value]) => ['-H', `${name}: ${value}`]);
  return (await run('curl', ['-s', ...args, String(home)])).stdout;
}

t.test('it names version, models and address, and loads nothing from elsewhere', async (t) => {
  const response = await fetch(home);
  t.equal(response.status, 200);
  const text = await response.text();
  for (const part of ['svc-v1-8k', `${home.origin}/v1`, 'href="/docs"', 'href="/console"']) {
    t.match(text, part);
  }
  t.match(text, 'no admin key yet');
  t.match(response.headers.get('content-security-policy'), "default-src 'none'");
  t.notMatch(text, '<script');
});

t.test('the address is the one that the client used, and never markup', async (t) => {
  t.match(await pageAs({ host: 'chat.example.org' }), 'http://chat.example.org/v1');
  const proxied = { host: 'chat.example.org', 'x-forwarded-proto': 'https' };
  t.match(await pageAs(proxied), 'https://chat.example.org/v1');
  t.notMatch(await pageAs({ host: '"><b>x' }), '<b>');
});

t.test('the quick start runs as it stands there', async (t) => {
  const text = await (await fetch(home)).text();
  const [, code = ''] = /<pre><code>([\s\S]*?)<\/code>/.exec(text) ?? [];
  const shell = code.replaceAll('&quot;', '"').replaceAll('&#39;', "'").replaceAll('&amp;', '&');
  const { stdout } = await run('sh', ['-c', shell.replace('sk-default-…', aliceKey)]);
  t.match(stdout, /data: \{.*"content":"[^"]*sky/);
  t.match(stdout, 'data: [DONE]');
});

const path = browserPath();
t.test('in a browser', { skip: path === null && 'no Chromium is installed' }, async (t) => {
  const browser = await openBrowser(t, path ?? '');
  const page = await browser.newPage();
  const faults = faultsOf(page);
  await page.goto(String(home));
  await page.getByRole('link', { name: 'API reference' }).click();
  t.match(await page.title(), 'preface');
  t.same(faults, []);
});
