/**
 * Owns how a test opens the operator's page in a browser: its size and scheme, and the log-in.
 * It must never reach behind the page: what a test knows of the service there, a person sees.
 */
import type { Browser, Page } from 'playwright-core';
import { faultsOf } from './browser.js';
import { adminKey } from './operator-client.js';

export interface Look {
  readonly width: number;
  readonly colorScheme: 'light' | 'dark';
}

export async function openConsole(
  browser: Browser,
  service: { readonly url: string },
  hash = '',
  { width, colorScheme }: Look = { width: 1280, colorScheme: 'light' },
): Promise<{ page: Page; faults: string[] }> {
  const page = await browser.newPage({ viewport: { width, height: 900 }, colorScheme });
  const faults = faultsOf(page);
  await page.goto(new URL(`/console${hash}`, service.url).href);
  return { page, faults };
}

export async function logIn(page: Page, key = adminKey): Promise<void> {
  await page.fill('#key', key);
  await page.click('#login button');
  await page.locator('#views').waitFor();
}

export async function isFocused(page: Page, selector: string): Promise<boolean> {
  return await page.locator(selector).evaluate((node) => node === node.ownerDocument.activeElement);
}
