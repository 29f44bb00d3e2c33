/** Owns the proof of `preface files`: what is stored is shown, and a document is read without a service. */
import { execFile, spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import t from 'tap';
import { contentOf, upload } from '../support/file-client.js';
import { openService, serviceEnv, temporaryFolder } from '../support/service.js';

const run = promisify(execFile);
const cli = fileURLToPath(new URL('../../src/cli.js', import.meta.url));
const notice = fileURLToPath(new URL('../../../test/documents/text.pdf', import.meta.url));

function preface(dataDir: string, ...args: string[]) {
  const { PREFACE_DATA_DIR = '', HOME = '' } = serviceEnv(dataDir);
  const env = { PATH: process.env.PATH, HOME, PREFACE_DATA_DIR };
  return run(process.execPath, [cli, 'files', ...args], { env });
}

t.test('the files are shown while the service runs', async (t) => {
  const service = await openService(t);
  const { id } = await upload(service, 'words', 'a\u202e.txt');
  await contentOf(service, id);
  const { stdout } = await preface(service.dataDir, 'list', '--json');
  t.match(JSON.parse(stdout), [
    { id, user: 'alice', status: 'ok', size: '5 bytes', name: 'a?.txt' },
  ]);
  t.same(
    JSON.parse((await preface(service.dataDir, 'list', '--user', 'bob', '--json')).stdout),
    [],
  );
  const shown = await preface(service.dataDir, 'show', id);
  t.match(JSON.parse(shown.stdout), { id, progress: { status: 'ok' } });
  await t.rejects(preface(service.dataDir, 'show', '0'.repeat(20)), /there is no file/);
});

t.test('a document is read without a service', async (t) => {
  const folder = temporaryFolder(t);
  t.match((await preface(folder, 'extract', notice)).stdout, /consectetur adipisici elit/);
  const { stdout } = await preface(folder, 'extract', notice, '--json');
  t.match(JSON.parse(stdout), {
    content: /Lorem ipsum/,
    file_type: 'application/pdf',
    filename: 'text.pdf',
    type: 'file',
  });
  await t.rejects(preface(folder, 'extract', join(folder, 'none.pdf')));
});

const noTerminal = spawnSync('script', ['--version']).error !== undefined && 'there is no `script`';

t.test(
  'on a terminal the pages go by as a bar beside the text',
  { skip: noTerminal },
  async (t) => {
    const folder = temporaryFolder(t);
    const text = join(folder, 'text');
    const command = `"${process.execPath}" "${cli}" files extract "${notice}" > "${text}"`;
    const { stdout } = await run('script', ['-qec', command, '/dev/null'], {
      env: { PATH: process.env.PATH, HOME: folder, TERM: 'xterm' },
    });
    t.match(readFileSync(text, 'utf8'), /consectetur adipisici elit/);
    t.match(stdout, /text\.pdf \[=+\] page 2 of 2/);
    t.notMatch(stdout, /consectetur/);
  },
);

t.test('a terminal shows a text and obeys nothing in it', { skip: noTerminal }, async (t) => {
  const folder = temporaryFolder(t);
  const path = join(folder, 'words.txt');
  writeFileSync(path, 'one\ttwo\x1b[2Jthree\u200f\n');
  const options = { env: { PATH: process.env.PATH, HOME: folder, TERM: 'xterm' } };
  const command = `"${process.execPath}" "${cli}" files extract "${path}" 2>/dev/null`;
  const { stdout } = await run('script', ['-qec', command, '/dev/null'], options);
  t.match(stdout, 'one\ttwo?[2Jthree\u200f');
  const piped = await preface(folder, 'extract', path);
  t.match(piped.stdout, 'one\ttwo\x1b[2Jthree\u200f', 'a program gets the very text');
  const missing = preface(folder, 'extract', join(folder, 'none\x1b[2J.pdf'));
  const told = await missing.then(String, ({ stderr }: { stderr: string }) => stderr);
  t.match(told, 'none?[2J.pdf', 'an error is shown');
  t.notMatch(told, '\x1b', 'and not obeyed');
});
