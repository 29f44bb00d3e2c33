/**
 * §5 and the two texts of 401: who gets in, and who is told what.
 */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import t from 'tap';
import { refusal, said } from '../support/chat-client.js';
import { aliceKey, bobKey, openService, serviceEnv } from '../support/service.js';

const service = await openService(t);
const origin = service.url.slice(0, -'/v1'.length);
const type = 'invalid_authentication_error';

const routes = [
  ['POST', '/v1/chat/completions'],
  ['GET', '/v1/models'],
  ['GET', '/v1/models/svc-v1-8k'],
  ['POST', '/v1/tokenizers/estimate-token-count'],
] as const;

/** Posts to all routes that need a key, and reads their refusals. */
async function refusals(t: Tap, headers: Record<string, string>) {
  return await Promise.all(
    routes.map(async ([method, path]) => {
      const body = method === 'POST' ? { body: JSON.stringify(said('x')) } : {};
      const response = await fetch(origin + path, { method, headers, ...body });
      return await refusal(t, response, path);
    }),
  );
}
type Tap = Parameters<typeof refusal>[0];

t.test('no header, or another scheme: Invalid Authentication', async (t) => {
  const basic = `Basic ${Buffer.from(`x:${aliceKey}`).toString('base64')}`;
  for (const authorization of [undefined, '', basic, aliceKey, `Token ${aliceKey}`, 'Bearerx']) {
    const headers = authorization === undefined ? {} : { authorization };
    for (const found of await refusals(t, headers)) {
      t.match(
        found,
        { status: 401, type, message: 'Invalid Authentication' },
        authorization ?? 'none',
      );
    }
  }
});

t.test('an unknown or empty Bearer value: Incorrect API key provided', async (t) => {
  const wrong = [
    'Bearer',
    'Bearer ',
    'Bearer wrong',
    `Bearer ${aliceKey}x`,
    `Bearer ${aliceKey.slice(0, -1)}`,
    `Bearer ${aliceKey.toUpperCase()}`,
    `Bearer ${aliceKey} ${bobKey}`,
    `Bearer ${aliceKey},`,
    `Bearer sk-alice-${'0'.repeat(56)}`,
    `Bearer ${'x'.repeat(5_000)}`,
    'Bearer __proto__',
  ];
  for (const authorization of wrong) {
    for (const found of await refusals(t, { authorization })) {
      const name = authorization.slice(0, 40);
      t.match(found, { status: 401, type, message: 'Incorrect API key provided' }, name);
    }
  }
});

t.test('the scheme in any case, and more than one space, is still a Bearer value', async (t) => {
  for (const authorization of [`bearer ${aliceKey}`, `BEARER ${aliceKey}`, `Bearer  ${aliceKey}`]) {
    const response = await fetch(`${service.url}/models`, { headers: { authorization } });
    t.equal(response.status, 200, authorization);
  }
});

t.test('a key in the address or in another header opens nothing', async (t) => {
  const headers = { 'api-key': aliceKey, 'x-api-key': aliceKey };
  const response = await fetch(`${service.url}/models?key=${aliceKey}`, { headers });
  t.match(await refusal(t, response), { status: 401, message: 'Invalid Authentication' });
});

t.test('x-api-key is read by the routes of the Messages API alone', async (t) => {
  const ask = async (path: string) => {
    const body = { model: 'svc-v1-8k', max_tokens: 1, messages: [{ role: 'user', content: 'hi' }] };
    const headers = { 'x-api-key': aliceKey, 'content-type': 'application/json' };
    const request = { method: 'POST', headers, body: JSON.stringify(body) };
    return (await fetch(`${service.url}${path}`, request)).status;
  };
  for (const path of ['/messages', '/messages/count_tokens']) t.equal(await ask(path), 200, path);
  for (const path of [
    '/chat/completions',
    '/responses',
    '/tokenizers/estimate-token-count',
    '/caching',
  ])
    t.equal(await ask(path), 401, path);
});

t.test('the key is asked for before the body is looked at', async (t) => {
  const response = await service.call('POST', '/chat/completions', '{broken', {
    authorization: 'Bearer wrong',
  });
  t.match(await refusal(t, response), { status: 401, message: 'Incorrect API key provided' });
});

t.test('health and the API document need no key', async (t) => {
  for (const path of ['/health', '/openapi.json']) {
    const response = await fetch(origin + path);
    t.equal(response.status, 200, path);
    t.match(response.headers.get('x-request-id'), /^\S+$/);
    await response.body?.cancel();
  }
});

t.test(
  'a key made on the command line works at once, and is refused at once when revoked',
  async (t) => {
    const preface = async (...args: string[]) => {
      const cli = fileURLToPath(new URL('../../src/cli.js', import.meta.url));
      const { PREFACE_DATA_DIR, HOME } = serviceEnv(service.dataDir);
      const env = { PATH: process.env.PATH, HOME, PREFACE_DATA_DIR };
      const { stdout } = await promisify(execFile)(process.execPath, [cli, ...args], { env });
      return stdout.trim();
    };
    const key = await preface('keys', 'create', '--user', 'carol');
    t.match(key, /^sk-carol-\S+$/);
    const authorization = { authorization: `Bearer ${key}` };
    t.equal((await service.call('GET', '/models', undefined, authorization)).status, 200);
    const [stored] = JSON.parse(await preface('keys', 'list', '--json')) as { id: string }[];
    await preface('keys', 'revoke', stored?.id ?? '');
    const response = await service.call('GET', '/models', undefined, authorization);
    t.match(await refusal(t, response), {
      status: 401,
      type,
      message: 'Incorrect API key provided',
    });
  },
);
