/**
 * Holes that command lines of comparable servers had: what a user called something is obeyed by the terminal of the
 * operator who lists it.
 */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import t from 'tap';
import { createCache } from '../support/cache-client.js';
import { upload } from '../support/file-client.js';
import { openService, serviceEnv } from '../support/service.js';

const run = promisify(execFile);
const cli = fileURLToPath(new URL('../../src/cli.js', import.meta.url));

/** Clears a screen, both ways that a terminal knows; a false line; text from right to left, and an invisible tag. */
const NAME = 'a\x1b[2J\x9b2Jb\r\nline\u202ec\u{e0041}';
const SHOWN = 'a?[2J?2Jb??line?c?';
const OBEYED = /[^\P{Cc}\n]|\p{Cf}/u;

t.test('a name is shown to an operator, never obeyed', async (t) => {
  const service = await openService(t);
  const { PREFACE_DATA_DIR = '', HOME = '' } = serviceEnv(service.dataDir);
  const env = { PATH: process.env.PATH, HOME, PREFACE_DATA_DIR };
  const preface = async (...args: string[]) =>
    (await run(process.execPath, [cli, ...args], { env })).stdout;

  const messages = [{ role: 'system', content: NAME }];
  const { id } = await createCache(service, { messages, name: NAME, description: NAME });
  const file = await upload(service, 'words', 'a\x9b2J\u202e.txt');

  const rows = await preface('caches', 'list');
  t.notMatch(rows, OBEYED, 'rows for people');
  t.match(rows, new RegExp(`${SHOWN.replace(/[?[]/g, '\\$&')}$`, 'm'), 'in one line');

  const listed = await preface('caches', 'list', '--json');
  t.notMatch(listed, OBEYED, 'rows for programs');
  t.match(JSON.parse(listed), [{ id, name: NAME }], 'which get the very name');

  const shown = await preface('caches', 'show', id);
  t.notMatch(shown, OBEYED, 'a record');
  t.match(JSON.parse(shown), { id, name: NAME, description: NAME });

  t.notMatch(await preface('files', 'list'), OBEYED, 'files');
  const record = await preface('files', 'show', file.id);
  t.notMatch(record, OBEYED, 'the record of a file');
  t.match(JSON.parse(record), { id: file.id, filename: 'a\x9b2J\u202e.txt' });
});
