/**
 * Owns the agreement of the README with the code: its tables are the code's, its routes and files exist.
 * `UPDATE_README=1` writes the tables instead of checking them.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { type ErrorRow, errorTable } from '../src/errors.js';
import { resources } from '../src/protocol/chat-api.js';
import { defaultPolicy } from '../src/rules/account-policy.js';
import { grantsMarkdown } from '../src/settings/accounts.js';
import { settingsMarkdown } from '../src/settings/table.js';

const path = fileURLToPath(new URL('../../README.md', import.meta.url));

function errorsMarkdown(): string {
  const rows = Object.values(errorTable).map(
    ({ status, type, text }: ErrorRow) =>
      `| ${status} | \`${type}\` | ${text.replaceAll('|', '\\|')} |`,
  );
  return ['| status | type | message |', '|---|---|---|', ...rows].join('\n');
}

const tables = {
  errors: errorsMarkdown(),
  settings: settingsMarkdown(),
  accounts: grantsMarkdown(defaultPolicy),
};

/** The lines between `<!-- name…-->` and `<!-- /name -->`. */
function block(text: string, name: string): { start: number; end: number; body: string } {
  const open = new RegExp(`<!-- ${name}[^>]*-->\n`).exec(text);
  const end = text.indexOf(`<!-- /${name} -->`);
  if (open === null || end < 0) throw new Error(`README has no block ${name}`);
  const start = open.index + open[0].length;
  return { start, end, body: text.slice(start, end).trimEnd() };
}

for (const [name, expected] of Object.entries(tables)) {
  t.test(`the table of ${name} is the code's`, async (t) => {
    const text = readFileSync(path, 'utf8');
    const { start, end, body } = block(text, name);
    if (process.env.UPDATE_README) {
      writeFileSync(path, `${text.slice(0, start)}${expected}\n${text.slice(end)}`);
    } else {
      t.equal(body, expected);
    }
  });
}

t.test('each route is named, and each linked file exists', async (t) => {
  const text = readFileSync(path, 'utf8');
  for (const { operations } of resources([], [])) {
    for (const { method, path: route } of operations) {
      t.ok(text.includes(route), `${method} ${route}`);
    }
  }
  for (const [, link = ''] of text.matchAll(/\]\(([^)#:]+)\)/g)) {
    t.ok(existsSync(new URL(`../../${link}`, import.meta.url)), link);
  }
});
