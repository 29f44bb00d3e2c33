/**
 * Owns the proof that a page in a real browser can upload a file and read its text, as its user would.
 * It must never lend the page more than the service grants: its policies stay on.
 */
import { createServer } from 'node:http';
import type { Page } from 'playwright-core';
import t, { type Test } from 'tap';
import { browserPath, faultsOf, openBrowser } from '../support/browser.js';
import { type Content, listed } from '../support/file-client.js';
import { listen } from '../support/listen.js';
import { aliceKey, openService, type TestService } from '../support/service.js';

const path = browserPath();
t.setTimeout(240_000);

const WORDS = 'Über den Dächern 屋顶\n\tist es still.\nZweite Zeile';

/** What a page says of an upload: the text of the file, or what the browser threw at it. */
interface Told {
  readonly requestId: string | null;
  readonly made: { readonly bytes: number; readonly filename: string; readonly status: string };
  readonly content: Content;
}

/** Runs within the page: it may use nothing of this file. */
async function uploadInPage({ url, key, words }: Record<'url' | 'key' | 'words', string>) {
  const headers = { authorization: `Bearer ${key}` };
  const form = new FormData();
  form.append('file', new File([words], 'Dächer 屋.txt', { type: 'text/plain' }));
  form.append('purpose', 'file-extract');
  try {
    const answer = await fetch(`${url}/files`, { method: 'POST', headers, body: form });
    const made = (await answer.json()) as { id: string };
    if (!answer.ok) return JSON.stringify(made);
    const content = await fetch(`${url}/files/${made.id}/content`, { headers });
    return { requestId: answer.headers.get('x-request-id'), made, content: await content.json() };
  } catch (cause) {
    return String(cause);
  }
}

async function upload(page: Page, { url }: TestService): Promise<Told | string> {
  return (await page.evaluate(uploadInPage, { url, key: aliceKey, words: WORDS })) as Told | string;
}

function checkTold(t: Test, told: Told | string): void {
  if (typeof told === 'string') {
    t.fail(told);
    return;
  }
  const { requestId, made, content } = told;
  t.match(requestId, /./, 'the page may read the headers it is told of');
  const bytes = Buffer.byteLength(WORDS);
  t.match(made, { bytes, filename: 'Dächer 屋.txt', status: 'ok' });
  t.equal(content.content.trimEnd(), WORDS);
  t.match(content, { filename: 'Dächer 屋.txt', file_type: 'text/plain' });
}

/** A site of somebody else, on a port of its own. */
async function openSite(t: Test): Promise<string> {
  const server = createServer((_, response) => {
    response.setHeader('content-type', 'text/html; charset=utf-8');
    response.end('<!doctype html><title>a page of another site</title>');
  });
  const port = await listen(t, server);
  return `http://127.0.0.1:${port}`;
}

t.test('in a browser', { skip: path === null && 'no Chromium is installed' }, async (t) => {
  const browser = await openBrowser(t, path ?? '');

  t.test('a page of the service itself uploads and reads', async (t) => {
    // The page of /docs may call nothing, so that of the operator stands for it.
    const service = await openService(t, { PREFACE_ADMIN_KEY: 'key-of-the-operator' });
    const page = await browser.newPage();
    const faults = faultsOf(page);
    await page.goto(new URL('/console', service.url).href);
    checkTold(t, await upload(page, service));
    t.same(faults, []);
    await page.close();
  });

  t.test('the page of /docs may call nothing, not even this server', async (t) => {
    const service = await openService(t);
    const page = await browser.newPage();
    await page.goto(new URL('/docs', service.url).href);
    t.match(await upload(page, service), /^TypeError/);
    t.same((await listed(service)).data, []);
    await page.close();
  });

  t.test('a page of an origin that the settings name uploads and reads', async (t) => {
    const site = await openSite(t);
    const service = await openService(t, { PREFACE_CORS_ORIGINS: site });
    const page = await browser.newPage();
    await page.goto(site);
    const faults = faultsOf(page);
    checkTold(t, await upload(page, service));
    t.same(faults, []);
    await page.close();
  });

  t.test('a page of any other origin uploads nothing', async (t) => {
    const site = await openSite(t);
    const service = await openService(t, { PREFACE_CORS_ORIGINS: 'https://page.example' });
    const page = await browser.newPage();
    await page.goto(site);
    t.match(await upload(page, service), /^TypeError/);
    t.same((await listed(service)).data, []);
    await page.close();
  });
});
