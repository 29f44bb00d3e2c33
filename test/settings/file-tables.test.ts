/**
 * Owns the check that the README of the settings documents the tables of the settings file as the code has them.
 * `UPDATE_README=1` writes the tables instead of checking them.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { fileTablesMarkdown } from '../../src/settings/tables.js';

const path = fileURLToPath(new URL('../../../src/settings/README.md', import.meta.url));

for (const [name, table] of Object.entries(fileTablesMarkdown)) {
  t.test(`the documented fields of ${name} are the code's`, async (t) => {
    const text = readFileSync(path, 'utf8');
    const block = new RegExp(`(?<=<!-- ${name} -->\\n)[^]*?(?=<!-- /${name} -->)`);
    if (process.env.UPDATE_README)
      writeFileSync(
        path,
        text.replace(block, () => `${table}\n`),
      );
    else t.equal(block.exec(text)?.[0].trimEnd(), table);
  });
}
