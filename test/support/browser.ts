/**
 * Owns the browser that pages are tested in: the system's Chromium, where there is one.
 * It must never download a browser.
 */
import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { type Browser, chromium, type Page } from 'playwright-core';
import type { Test } from 'tap';

const NAMES = ['chromium', 'chromium-browser', 'google-chrome'];

/** Null where none is installed: then a test says so and is skipped. */
export function browserPath(): string | null {
  for (const folder of (process.env.PATH ?? '').split(delimiter)) {
    for (const name of NAMES) {
      if (isProgram(join(folder, name))) return join(folder, name);
    }
  }
  return null;
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

export async function openBrowser(t: Test, executablePath: string): Promise<Browser> {
  // Its own sandbox cannot be made by root, whom tests may run as; only pages of ours are opened.
  const browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] });
  t.teardown(() => browser.close());
  return browser;
}

/** What a browser complains of: scripts that throw, and what the page's own policy forbade. */
export function faultsOf(page: Page): string[] {
  const faults: string[] = [];
  page.on('pageerror', ({ message }) => faults.push(message));
  page.on('console', (line) => {
    if (line.type() === 'error') faults.push(line.text());
  });
  return faults;
}
