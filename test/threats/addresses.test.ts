/**
 * Holes that comparable servers had with addresses and names: fetching what a request names, paths out of the data folder,
 * names of files as markup, other Hosts, redirects.
 */
import { existsSync, readdirSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import t from 'tap';
import { post, refusal, said } from '../support/chat-client.js';
import { contentOf, listed, upload } from '../support/file-client.js';
import { listen } from '../support/listen.js';
import { RawClient, request } from '../support/raw-client.js';
import { aliceKey, openService, temporaryFolder } from '../support/service.js';

// In a folder of its own, so that nothing but this service writes beside its data.
const around = temporaryFolder(t);
const service = await openService(t, { PREFACE_DATA_DIR: join(around, 'data') });
const port = Number(new URL(service.url).port);

t.test('nothing that a request names is fetched', async (t) => {
  const met: string[] = [];
  const trap = createServer((message, response) => {
    met.push(message.url ?? '');
    response.writeHead(302, { location: 'http://127.0.0.1/' }).end();
  });
  const own = `127.0.0.1:${await listen(t, trap)}`;
  const urls = [
    `http://${own}/a.png`,
    `http://[::ffff:127.0.0.1]:${own.split(':')[1]}/a.png`,
    `//${own}/a.png`,
    `data:text/html,<img src=http://${own}/b>`,
    `data:image/png;base64,http://${own}/c`,
    'file:///etc/passwd',
    'http://169.254.169.254/latest/meta-data/',
    'http://0.0.0.0/',
    'gopher://127.0.0.1/',
    'DATA:image/png;base64,AAAA',
  ];
  for (const url of urls) {
    const content = [{ type: 'image_url', image_url: { url } }];
    const chat = await refusal(t, await post(service, said(content)));
    t.equal(chat.status, 400, url);
    const model = 'svc-v1-8k-vision-preview';
    const estimate = await service.call('POST', '/tokenizers/estimate-token-count', {
      ...said(content),
      model,
    });
    // An image of which no size can be read is counted as the largest one, or refused: never looked for.
    t.ok([200, 400].includes(estimate.status), url);
    await estimate.text();
  }
  const { id } = await upload(
    service,
    `<img src="http://${own}/d"><link href="http://${own}/e">x`,
    'a.html',
  );
  await contentOf(service, id);
  t.same(met, []);
});

t.test('no path leads out of the data folder, or past a key', async (t) => {
  const up = '..%2f..%2f..%2f..%2fetc%2fpasswd';
  const paths = [
    `/v1/files/${up}`,
    `/v1/files/${up}/content`,
    '/v1/files/../../etc/passwd',
    '/v1/files/%2e%2e/content',
    '/v1/files/..%5c..%5cx/content',
    '/v1/files/records.mdb/content',
    `/v1/caching/${up}`,
    `/v1/caching/refs/tags/${up}/content`,
    `/v1/models/${up}`,
    '//etc/passwd',
    '/v1//files',
    '/v1/files/',
    '/V1/files',
    '/v1/./files',
    '/v1/files;x',
    '/health/../v1/files',
    '/v1/files%00',
    '/v1/files/%00',
  ];
  for (const path of paths) {
    const client = new RawClient(port);
    client.send(request(`GET ${path}`, [`Authorization: Bearer ${aliceKey}`]));
    const text = await client.answer('}}');
    client.destroy();
    t.match(text, /^HTTP\/1\.1 (400|404) /, path);
    t.notMatch(text, /root:|"data":/, path);
    const open = new RawClient(port);
    open.send(request(`GET ${path}`));
    t.match(await open.answer('}}'), /^HTTP\/1\.1 40[014] /, `${path} without a key`);
    open.destroy();
  }
});

t.test('the name of a file is data: kept, shown in JSON, and no path', async (t) => {
  const names = [
    '../../../../tmp/preface-was-here.txt',
    '/etc/passwd.txt',
    '..\\..\\windows.txt',
    '<img src=x onerror=alert(1)>.txt',
    `"><script>alert('x')</script>.txt`,
    "'; DROP TABLE files; --.txt",
    'a b\u202etxt.exe.txt',
    '__proto__.txt',
    '{{7*7}}#{7*7}.txt',
    'constructor',
  ];
  for (const name of names) {
    const { id, filename } = await upload(service, 'some text', name);
    t.notMatch(filename, /[/\\]/, `${name}: no folder`);
    const response = await service.call('GET', `/files/${id}`);
    t.equal(response.headers.get('content-type'), 'application/json');
    t.equal(((await response.json()) as { filename: string }).filename, filename);
    const text = await service.call('GET', `/files/${id}/content`);
    t.match(text.headers.get('content-type'), /^text\/plain/, 'never a type that a browser runs');
    t.equal((JSON.parse(await text.text()) as { filename: string }).filename, filename);
  }
  t.equal((await listed(service, '?limit=100')).data.length, names.length + 1);
  t.notOk(existsSync('/tmp/preface-was-here.txt'));
  t.same(readdirSync(around), ['data']);
});

t.test('the Host decides nothing, and no answer leads elsewhere', async (t) => {
  const hosts = ['evil.example', '127.0.0.1', 'localhost:1', '[::1]', 'a.b@c', '169.254.169.254'];
  for (const host of hosts) {
    const lines = [`Host: ${host}`, `X-Forwarded-Host: ${host}`, `X-Forwarded-For: 127.0.0.1`];
    for (const [target, status] of [
      ['/v1/models', 401],
      ['/metrics', 404],
      ['/health', 200],
    ] as const) {
      const client = new RawClient(port);
      client.send(`GET ${target} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`);
      const text = await client.answer('}');
      client.destroy();
      t.match(text, new RegExp(`^HTTP/1\\.1 ${status} `), `${host} ${target}`);
      t.notMatch(text, /^location:/im);
      t.notMatch(text, /evil|169\.254/);
    }
  }
});
