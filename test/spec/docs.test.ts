/** The pages for readers, as a browser gets them and as it shows them. */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { browserPath, checkAccess, faultsOf, openBrowser } from '../support/browser.js';
import { root } from '../support/pages.js';
import { openService } from '../support/service.js';

t.setTimeout(240_000);

t.test('the API is shown by the server itself, to anyone, with nothing to run', async (t) => {
  const service = await openService(t);
  const response = await fetch(new URL('/docs', service.url));
  t.equal(response.status, 200);
  t.equal(response.headers.get('content-type'), 'text/html; charset=utf-8');
  t.match(
    response.headers.get('content-security-policy'),
    /^default-src 'none';.* style-src 'self'$/,
  );
  t.equal(response.headers.get('x-content-type-options'), 'nosniff');
  const page = await response.text();
  t.match(page, 'id="createChatCompletion"');
  const [, sheet = ''] = /<link rel="stylesheet" href="([^"]+)"/.exec(page) ?? [];
  const style = await fetch(new URL(sheet, new URL('/docs', service.url)));
  t.equal(style.status, 200);
  t.equal(style.headers.get('content-type'), 'text/css; charset=utf-8');
  t.equal((await fetch(new URL('/docs/../src/main.ts', service.url))).status, 404);
});

t.test('the guides are shown too, and their links lead to pages of the server', async (t) => {
  const service = await openService(t);
  const seen = new Set<string>();
  const waiting = ['/docs/guides'];
  for (let path = waiting.pop(); path !== undefined; path = waiting.pop()) {
    seen.add(path);
    const response = await fetch(new URL(path, service.url));
    t.equal(response.status, 200, path);
    if (response.headers.get('content-type') !== 'text/html; charset=utf-8') continue;
    t.match(response.headers.get('content-security-policy'), /^default-src 'none';/);
    const page = await response.text();
    if (path.startsWith('/docs/guides'))
      t.notMatch(page, '&lt;!--', `${path} shows no remark of its source`);
    const ids = new Set([...page.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id));
    for (const [, target = '', anchor] of page.matchAll(/ href="([^"#]*)(?:#([^"]*))?"/g)) {
      if (target === '') t.ok(ids.has(anchor), `${path}#${anchor}`);
      const { pathname } = new URL(target, new URL(path, service.url));
      if (!seen.has(pathname) && !waiting.includes(pathname)) waiting.push(pathname);
    }
  }
  const files = readdirSync(join(root, 'src/pages/guides'));
  t.equal([...seen].filter((path) => path.startsWith('/docs/guides')).length, files.length);
});

/** Of each kind one: axe takes long for a page as large as the reference. */
const CHECKED = ['/', '/console', '/docs/guides', '/docs/guides/from-vllm'];
const path = browserPath();
t.test('in a browser', { skip: path === null && 'no Chromium is installed' }, async (t) => {
  const browser = await openBrowser(t, path ?? '');
  const service = await openService(t);
  const guides = readdirSync(join(root, 'src/pages/guides'))
    .filter((file) => file !== 'README.md')
    .map((file) => `/docs/guides/${file.replace('.md', '')}`);
  const all = ['/', '/console', '/docs', '/docs/guides', ...guides];
  for (const look of [
    { colorScheme: 'light', width: 390, paths: all },
    { colorScheme: 'light', width: 1280, paths: all },
    // Colours move nothing: it is only whether they can be read that is looked at again.
    { colorScheme: 'dark', width: 390, paths: CHECKED },
    { colorScheme: 'dark', width: 1280, paths: CHECKED },
  ] as const) {
    t.test(`${look.colorScheme}, ${look.width} pixels: nothing is cut`, async (t) => {
      const { colorScheme, width, paths } = look;
      const page = await browser.newPage({ viewport: { width, height: 844 }, colorScheme });
      const faults = faultsOf(page);
      for (const path of paths) {
        await page.goto(new URL(path, service.url).href);
        const over = await page.evaluate('document.documentElement.scrollWidth - innerWidth');
        t.ok(Number(over) <= 0, `${path} is ${over} pixels too wide`);
        const top = await page.evaluate(
          "document.querySelector('main').getBoundingClientRect().top",
        );
        t.ok(Number(top) < 300, `${path} begins at ${top} pixels, below its list of pages`);
        if (CHECKED.includes(path)) await checkAccess(t, page, path);
      }
      await page.goto(new URL('/', service.url).href);
      const cut =
        "(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth)(document.querySelector('pre'))";
      t.equal(await page.evaluate(cut), 0, 'the quick start can be read');
      // Without an admin key the page of the console is a 404, and says so.
      t.same(
        faults.filter((fault) => !fault.includes('404')),
        [],
      );
      await page.close();
    });
  }
});
