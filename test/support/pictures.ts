/**
 * Owns the pictures of the console and the playground: a service at work, looked at by a browser (`npm run pictures`).
 * It must never show anything but what the pages make of it.
 */
import { mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { type Browser, chromium, type Page } from 'playwright-core';
import { serve } from '../../src/main.js';
import { loadConfig } from '../../src/settings/config.js';
import { browserPath } from './browser.js';
import { type Place, Traffic } from './pictures-traffic.js';

const FOLDER = fileURLToPath(new URL('../../../.github/pictures/', import.meta.url));
const ADMIN_KEY = 'key-of-the-operator';
const USERS = ['harbour', 'letters'];
/** How long the service works before it is looked at: the history has 18 steps then. */
const WORK_S = Number(process.env.PICTURES_S ?? 180);
const QUALITY = 70;

interface Look {
  readonly name: string;
  readonly width: number;
  readonly height: number;
  readonly colorScheme: 'light' | 'dark';
}

const LOOKS: readonly Look[] = [
  { name: 'light', width: 1280, height: 980, colorScheme: 'light' },
  { name: 'dark', width: 1280, height: 980, colorScheme: 'dark' },
  { name: 'phone', width: 390, height: 844, colorScheme: 'light' },
];

async function main(): Promise<void> {
  const executablePath = browserPath();
  if (executablePath === null) throw new Error('no Chromium is installed');
  const dataDir = mkdtempSync(join(tmpdir(), 'preface-pictures-'));
  const keys = Object.fromEntries(USERS.map((user) => [user, `sk-${user}-0123456789abcdef`]));
  const own = {
    PREFACE_PORT: '0',
    PREFACE_DATA_DIR: dataDir,
    PREFACE_ADMIN_KEY: ADMIN_KEY,
    PREFACE_API_KEYS: USERS.map((user) => `${user}:${keys[user]}`).join(','),
  };
  const service = await serve(loadConfig({ flags: {}, env: { ...process.env, ...own } }), () => {});
  const browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] });
  try {
    await takeAll(browser, { url: service.url, keys, model: 'svc-v1-8k', family: 'svc-v1' });
  } finally {
    await browser.close();
    await service.close();
    rmSync(dataDir, { recursive: true, force: true });
  }
}

async function takeAll(browser: Browser, place: Place): Promise<void> {
  mkdirSync(FOLDER, { recursive: true });
  const traffic = new Traffic(place);
  await traffic.prepare();
  const running = traffic.run();
  await sleep(WORK_S * 1_000);
  for (const look of LOOKS) await takeConsole(browser, place, look);
  traffic.stop();
  await running;
  for (const look of LOOKS) await takePlayground(browser, place, look);
}

async function takeConsole(browser: Browser, place: Place, look: Look): Promise<void> {
  const page = await openPage(browser, look, new URL('/console', place.url));
  await page.fill('#key', ADMIN_KEY);
  await page.click('#login button');
  await page.locator('.chart canvas').first().waitFor();
  // Tiles show what lies between two looks; a few make a line.
  await sleep(9_000);
  await take(page, `console-${look.name}`);
  await page.close();
}

async function takePlayground(browser: Browser, place: Place, look: Look): Promise<void> {
  const page = await openPage(browser, look, new URL('/playground', place.url));
  await page.fill('#key', place.keys.letters ?? '');
  await page.click('#login button');
  await page.getByLabel('Your turn').fill('Who cleans room 7?');
  await page.getByRole('button', { name: 'Send', exact: true }).click();
  await page.getByText('cache: hit').waitFor({ timeout: 120_000 });
  if (look.name === 'phone') await page.locator('.turn').scrollIntoViewIfNeeded();
  await take(page, `playground-${look.name}`);
  await page.close();
}

async function openPage(browser: Browser, look: Look, address: URL): Promise<Page> {
  const { width, height, colorScheme } = look;
  const page = await browser.newPage({ viewport: { width, height }, colorScheme });
  await page.goto(address.href);
  return page;
}

/** Playwright itself writes no WebP, which is a third of a PNG. */
async function take(page: Page, name: string): Promise<void> {
  const session = await page.context().newCDPSession(page);
  const shot = { format: 'webp', quality: QUALITY } as const;
  const { data } = await session.send('Page.captureScreenshot', shot);
  const path = join(FOLDER, `${name}.webp`);
  writeFileSync(path, Buffer.from(data, 'base64'));
  console.log(`${name}.webp ${Math.round(statSync(path).size / 1024)} KiB`);
}

await main();
