/**
 * Owns the pages for people: which files they are made of, and what a browser may do with them.
 * It must never let a page load or run anything from another server.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { extname } from 'node:path';
import { docsPage } from '../protocol/docs-page.js';
import { type Route, route } from './router.js';

/** From the built file to the sources: pages are served as they are written. */
const PAGES = new URL('../../../src/pages/', import.meta.url);

const NOTHING_ELSE =
  "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/** No script, no form, no frame: a text with a style sheet. */
const READ_ONLY = `${NOTHING_ELSE}; style-src 'self'`;
/** Its scripts may call this server alone, and may not turn text into markup. */
const SCRIPTED = `${NOTHING_ELSE}; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; require-trusted-types-for 'script'; trusted-types 'none'`;

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.svg': 'image/svg+xml',
};

export function docsRoutes(openApi: object): Route[] {
  return [
    page(
      '/docs',
      '.html',
      once(() => docsPage(openApi)),
      READ_ONLY,
    ),
    ...folder('docs').map(({ name, text }) =>
      page(`/docs/${name}`, extname(name), () => text, READ_ONLY),
    ),
  ];
}

/** The page itself is open to anyone; its data needs the operator's key. */
export function consoleRoutes(): Route[] {
  return folder('console').map(({ name, text }) =>
    page(
      name === 'index.html' ? '/console' : `/console/${name}`,
      extname(name),
      () => text,
      SCRIPTED,
    ),
  );
}

/** Read once, when the service starts: a path of a request never becomes one of a file. */
function folder(name: string): { readonly name: string; readonly text: string }[] {
  const place = new URL(`${name}/`, PAGES);
  return readdirSync(place).map((file) => ({
    name: file,
    text: readFileSync(new URL(file, place), 'utf8'),
  }));
}

/** Built at the first request: most services are never asked for it. */
function once(make: () => string): () => string {
  let made: string | null = null;
  return () => {
    made ??= make();
    return made;
  };
}

function page(path: `/${string}`, extension: string, text: () => string, policy: string): Route {
  const headers = {
    'content-type': TYPES[extension] ?? 'application/octet-stream',
    'content-security-policy': policy,
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
    'cache-control': 'no-cache',
  };
  return route('GET', path, (exchange) => exchange.reply(200, text(), headers));
}
