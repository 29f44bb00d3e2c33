/**
 * Owns the proof that the page of the settings names the bound of everything that waits, as it is.
 * It must not know of any queue: what is called one in the limits must be in the table.
 */
import { readFileSync } from 'node:fs';
import t from 'tap';
import { type Limits, limits } from '../src/limits/index.js';

const WAITS = /(Queue|Queued|Waiting|Running|Held|Backlog|Buffer|Mailbox)\w*Max$/;
/** Bounds on the way to another one that the table names. */
const PARTS = ['streamBacklogBytesMax'];

const page = readFileSync(new URL('../../src/settings/README.md', import.meta.url), 'utf8');
const [, table = ''] = /<!-- queues[^>]*-->([\s\S]*?)<!-- \/queues -->/.exec(page) ?? [];
const rows = table
  .trim()
  .split('\n')
  .slice(2)
  .map((line) => line.split('|').map((cell) => cell.trim()));

t.test('each number is the one of its limit', async (t) => {
  t.ok(rows.length > 10);
  for (const [, what = '', all = '', own = '', names = ''] of rows) {
    const values = [...names.matchAll(/`(\w+)`/g)].map(([, name]) => limits[name as keyof Limits]);
    const shown = [all, own].filter((cell) => /^\d+$/.test(cell)).map(Number);
    t.same(shown, values, what);
  }
});

t.test('no bound of anything that waits is left out', async (t) => {
  const names = Object.keys(limits).filter((name) => WAITS.test(name) && !PARTS.includes(name));
  t.ok(names.length > 10);
  for (const name of names) t.ok(table.includes(`\`${name}\``), name);
});
