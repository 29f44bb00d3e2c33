/**
 * Owns the pages for people: what a browser may do with them, and where their files are.
 * It must never let a page load or run anything that does not come from this server.
 */
import { readFileSync } from 'node:fs';
import { docsPage } from '../protocol/docs-page.js';
import { type Route, route } from './router.js';

/** From the built file to the sources: style sheets are not compiled. */
const PAGES = new URL('../../../src/pages/', import.meta.url);

/** No script, no form, no frame: a text with a style sheet. */
const READ_ONLY =
  "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const TYPES = { html: 'text/html; charset=utf-8', css: 'text/css; charset=utf-8' } as const;

export function docsRoutes(openApi: object): Route[] {
  return [
    page('/docs', 'html', docsPage(openApi)),
    page('/docs/style.css', 'css', readFileSync(new URL('docs.css', PAGES), 'utf8')),
  ];
}

function page(path: `/${string}`, type: keyof typeof TYPES, text: string): Route {
  const headers = {
    'content-type': TYPES[type],
    'content-security-policy': READ_ONLY,
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
    'cache-control': 'no-cache',
  };
  return route('GET', path, (exchange) => exchange.reply(200, text, headers));
}
