/**
 * §5, §7: what an account may do, as the settings file says and as the operator changes it under a running service.
 */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { openWithSettings, post, refusal, said } from '../support/chat-client.js';
import { RawClient, request } from '../support/raw-client.js';
import { aliceKey, bobKey, serviceEnv } from '../support/service.js';

t.setTimeout(120_000);

const service = await openWithSettings(t, {
  limits: { accountConcurrency: 7 },
  accounts: {
    default: { apis: ['chat', 'estimate', 'caching'] },
    users: {
      alice: { concurrency: 1 },
      bob: { models: ['svc-v1-32k'], apis: ['chat', 'estimate'] },
    },
  },
});
const bob = { authorization: `Bearer ${bobKey}` };

interface Ended {
  readonly code: number | null;
  readonly out: string;
}

async function preface(...args: readonly string[]): Promise<Ended> {
  const cli = fileURLToPath(new URL('../../src/cli.js', import.meta.url));
  const env = { PATH: process.env.PATH, ...serviceEnv(service.dataDir) };
  const child = spawn(process.execPath, [cli, ...args], { env });
  let out = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk: Buffer) => {
      out += chunk.toString();
    });
  }
  const [code] = await once(child, 'close');
  return { code: code as number | null, out };
}

t.test('a suspended account: 403 with its text, before 413, until it is resumed', async (t) => {
  t.match(await preface('users', 'suspend', 'alice'), { code: 0, out: /"state": "suspended"/ });
  for (const [method, path] of [
    ['POST', '/chat/completions'],
    ['GET', '/models'],
    ['GET', '/caching'],
  ] as const) {
    const response = await service.call(method, path, method === 'POST' ? said('x') : undefined);
    t.equal(response.headers.get('x-should-retry'), 'false');
    t.strictSame(await refusal(t, response), {
      status: 403,
      type: 'exceeded_current_quota_error',
      message:
        'Your account alice<ak-setting-1> is not active, current state: suspended, you may consider to check your account balance',
    });
  }
  const client = new RawClient(Number(new URL(service.url).port));
  const headers = [`Authorization: Bearer ${aliceKey}`, 'Content-Length: 100000000'];
  const head = await client
    .send(request('POST /v1/chat/completions', headers, 'x'))
    .answer('balance');
  t.match(head, /^HTTP\/1\.1 403 /);
  client.destroy();
  t.equal((await service.call('GET', '/models', undefined, bob)).status, 200, 'others go on');

  t.match(await preface('users', 'resume', 'alice'), { code: 0, out: /"state": "active"/ });
  t.equal((await post(service, said('x'))).status, 200);
});

t.test('a model that is not open does not exist for the account', async (t) => {
  const message = 'Not found the model or Permission denied';
  for (const path of ['/chat/completions', '/tokenizers/estimate-token-count']) {
    const response = await service.call('POST', path, said('x'), bob);
    const found = await refusal(t, response, path);
    t.match(found, { status: 404, type: 'resource_not_found_error', message, param: 'model' });
    const open = { ...said('x'), model: 'svc-v1-32k' };
    t.equal((await service.call('POST', path, open, bob)).status, 200, path);
  }
  const auto = await service.call(
    'POST',
    '/chat/completions',
    { ...said('x'), model: 'svc-v1-auto' },
    bob,
  );
  t.match(await auto.json(), { model: 'svc-v1-32k' }, 'the smallest that is open');
  t.equal((await service.call('GET', '/models/svc-v1-8k', undefined, bob)).status, 404);
  const list = (await (await service.call('GET', '/models', undefined, bob)).json()) as {
    data: { id: string }[];
  };
  t.strictSame(
    list.data.map(({ id }) => id),
    ['svc-v1-32k', 'svc-v1-auto'],
  );
  t.match(await (await service.call('GET', '/models')).json(), { data: { length: 4 } });
});

t.test('an API that is not open', async (t) => {
  const found = await refusal(t, await service.call('GET', '/caching', undefined, bob));
  t.strictSame(found, {
    status: 403,
    type: 'permission_denied_error',
    message: 'The API you are accessing is not open',
  });
  t.match(await preface('users', 'set', 'bob', '--apis', 'all'), { code: 0, out: /"apis": null/ });
  t.equal((await service.call('GET', '/caching', undefined, bob)).status, 200);
  t.match(await preface('users', 'set', 'bob', '--apis', 'default'), { code: 0 });
  t.equal((await service.call('GET', '/caching', undefined, bob)).status, 403, 'by the settings');
});

t.test('the concurrency of an account is its own', async (t) => {
  const held = await post(service, said('/wait', { stream: true }));
  const refused = await post(service, said('x'));
  const waitS = refused.headers.get('retry-after');
  const found = await refusal(t, refused);
  t.match(found, { status: 429, type: 'rate_limit_reached_error' });
  t.equal(
    found.message,
    `Your account alice<ak-setting-1> request reached max concurrency: 1, please try again after ${waitS} seconds`,
  );
  t.match(await preface('users', 'set', 'alice', '--concurrency', '2'), { code: 0 });
  t.equal((await post(service, said('x'))).status, 200);
  await held.body?.cancel();
});

t.test('a balance is used up, and filled up under the running service', async (t) => {
  t.match(await preface('users', 'add-balance', 'alice', '30'), { code: 0, out: /"credit": 30/ });
  const first = await post(service, said('x', { max_tokens: 10 }));
  const { usage } = (await first.json()) as { usage: { total_tokens: number } };
  const response = await post(service, said('x', { max_tokens: 10 }));
  t.equal(response.headers.get('x-should-retry'), 'false');
  t.strictSame(await refusal(t, response), {
    status: 429,
    type: 'exceeded_current_quota_error',
    message: `You exceeded your current token quota: ${30 - usage.total_tokens}, please check your account balance`,
  });
  t.match(await preface('users', 'add-balance', 'alice', '30'), { code: 0, out: /"credit": 60/ });
  t.equal((await post(service, said('x', { max_tokens: 10 }))).status, 200);
  t.match(await preface('users', 'set', 'alice', '--balance', 'none'), { code: 0 });
  t.equal((await post(service, said('x', { max_tokens: 100 }))).status, 200);
});

t.test('the command line says what is wrong', async (t) => {
  const wrong = await preface('users', 'set', 'alice', '--rpm', 'many');
  t.match(wrong, { code: 2, out: /flag --rpm\): got "many", allowed: a whole number/ });
  t.match(await preface('users', 'suspend', 'nobody'), { code: 1, out: /there is no user nobody/ });
  const list = await preface('users', 'list', '--json');
  t.match(JSON.parse(list.out), [{ user: 'alice', concurrency: '2' }, { user: 'bob' }]);
});
