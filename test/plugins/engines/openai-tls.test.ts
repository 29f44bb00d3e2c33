/**
 * Owns the proof that an upstream is asked by TLS as Node does it: whose certificate is believed, and on how many connections.
 * It must never believe a certificate but those that it made.
 */
import { execFile, execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';
import { executablePath } from '../../../bench/support/llama-server.js';
import { builtFile } from '../../../bench/support/processes.js';
import { listen } from '../../support/listen.js';

const skip = executablePath('openssl') === null && 'there is no openssl';

/** In a process of its own, since certificates that are believed are read at its start. */
const ASKS = `
const { Connection } = await import(process.argv[1]);
const waits = { connectMs: 5000, firstByteMs: 20000, silenceMs: 20000 };
const connection = new Connection({ url: process.argv[2], apiKey: 'k', model: 'm' }, waits);
const ask = { path: '/models', body: '{"a":"\u00e9"}', signal: new AbortController().signal };
try {
  for (let i = 0; i < 3; i += 1) console.log(await (await connection.ask(ask)).text());
} catch (cause) {
  console.log(cause.message);
}
connection.close();`;

t.test('an upstream by TLS', { skip }, async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'preface-upstream-tls-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  const [cert, key] = [join(folder, 'cert'), join(folder, 'key')];
  const curve = [
    '-newkey',
    'ec',
    '-pkeyopt',
    'ec_paramgen_curve:prime256v1',
    '-nodes',
    '-days',
    '2',
  ];
  const named = ['-subj', '/CN=test', '-addext', 'subjectAltName=DNS:localhost'];
  const made = ['req', '-x509', ...curve, ...named, '-keyout', key, '-out', cert];
  execFileSync('openssl', made, { stdio: ['ignore', 'ignore', 'pipe'] });
  let connections = 0;
  const identity = { cert: readFileSync(cert), key: readFileSync(key) };
  const server = createServer(identity, (request, response) => {
    let sent = '';
    request.setEncoding('utf8').on('data', (part: string) => {
      sent += part;
    });
    request.on('end', () => response.end(`${request.headers.host?.split(':')[0]} ${sent}`));
  });
  server.on('secureConnection', () => {
    connections += 1;
  });
  const port = await listen(t, server);
  const asked = async (host: string, env: Record<string, string>): Promise<string[]> => {
    const args = [builtFile('plugins/engines/openai/connection.js'), `https://${host}:${port}/v1`];
    const { stdout } = await promisify(execFile)(
      process.execPath,
      ['--input-type=module', '-e', ASKS, ...args],
      { env: { PATH: process.env.PATH, ...env } },
    );
    return stdout.trim().split('\n');
  };
  const believed = { NODE_EXTRA_CA_CERTS: cert };
  const answer = 'localhost {"a":"é"}';
  t.same(await asked('localhost', believed), [answer, answer, answer], 'three answers');
  t.equal(connections, 1, 'on one connection');
  t.match(await asked('localhost', {}), [/^the connection to the upstream broke/], 'not known');
  t.match(
    await asked('127.0.0.1', believed),
    [/^the connection to the upstream broke/],
    'for another name',
  );
});
