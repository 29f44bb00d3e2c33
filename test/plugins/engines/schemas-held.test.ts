/**
 * The count of schemas that grammars hold: what is held, what is left to the model by name, and what is no schema.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { heldOf } from '../../../bench/schemas.js';
import { temporaryFolder } from '../../support/service.js';

t.test('schemas of a folder are counted by what becomes of them', async (t) => {
  const folder = temporaryFolder(t);
  const files: Readonly<Record<string, unknown>> = {
    'object.json': { type: 'object', properties: { a: { type: 'integer' } }, required: ['a'] },
    'pattern.json': { type: 'object', properties: { a: { type: 'string', pattern: '(a)\\1' } } },
    'tests.json': [{ schema: { enum: [1, 2] } }, { schema: { type: 'string', format: 'nothing' } }],
    'other.txt': {},
  };
  for (const [name, value] of Object.entries(files))
    writeFileSync(join(folder, name), JSON.stringify(value));
  writeFileSync(join(folder, 'broken.json'), '{');
  t.match(heldOf(folder), {
    held: 2,
    relaxed: 2,
    refused: 0,
    left: { pattern: 1, format: 1 },
  });
});
