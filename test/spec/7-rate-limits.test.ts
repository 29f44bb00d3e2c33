/**
 * §7: the limits of an account by requests, tokens and balance, as a client meets them.
 */
import OpenAI from 'openai';
import t from 'tap';
import { openWithSettings, post, refusal, said } from '../support/chat-client.js';
import { aliceKey } from '../support/service.js';

t.setTimeout(120_000);

const type = 'rate_limit_reached_error';
const name = 'Your account alice<ak-setting-1> request reached';

t.test('requests a minute: the text, a wait in it and in two headers', async (t) => {
  const service = await openWithSettings(t, { accounts: { default: { rpm: 2 } } });
  for (let i = 0; i < 2; i += 1) t.equal((await post(service, said('x'))).status, 200);
  const response = await post(service, said('x'));
  const afterS = Number(response.headers.get('retry-after'));
  t.equal(Math.ceil(Number(response.headers.get('retry-after-ms')) / 1000), afterS);
  t.ok(afterS > 30 && afterS <= 60);
  const message = `${name} max request: 2, please try again after ${afterS} seconds`;
  t.strictSame(await refusal(t, response), { status: 429, type, message });
  const sdk = new OpenAI({ baseURL: service.url, apiKey: aliceKey, maxRetries: 0 });
  const asked = sdk.chat.completions.create({ model: 'svc-v1-8k', messages: [] });
  const raised: unknown = await asked.catch((cause: unknown) => cause);
  t.ok(raised instanceof OpenAI.RateLimitError);
});

t.test('a look at the models is a request like any other', async (t) => {
  const service = await openWithSettings(t, { accounts: { default: { rpm: 2 } } });
  t.equal((await service.call('GET', '/models')).status, 200);
  t.equal((await service.call('GET', '/models/svc-v1-8k')).status, 200);
  for (const path of ['/models', '/models/svc-v1-8k']) {
    const found = await refusal(t, await service.call('GET', path));
    t.match(found, { status: 429, type, message: `${name} max request: 2` });
  }
});

t.test('tokens: a check by prompt and max_tokens, a count by what was used', async (t) => {
  const service = await openWithSettings(t, {
    accounts: { users: { alice: { tpm: 100 }, bob: { tpd: 100 } } },
  });
  const before = await refusal(t, await post(service, said('x', { max_tokens: 81 })));
  t.strictSame(before, {
    status: 429,
    type,
    message: `${name} TPM rate limit, current:0, limit:100`,
  });
  const first = await post(service, said('x', { max_tokens: 80 }));
  const head = (name: string) => first.headers.get(`x-ratelimit-${name}-tokens`);
  t.strictSame([head('limit'), head('remaining'), head('reset')], ['100', '0', '60s']);
  t.equal(first.headers.get('x-ratelimit-limit-requests'), null);
  const { usage } = (await first.json()) as { usage: { total_tokens: number } };
  const response = await post(service, said('x', { max_tokens: 80 }));
  t.ok(Number(response.headers.get('retry-after-ms')) > 30_000);
  const found = await refusal(t, response);
  t.equal(found.message, `${name} TPM rate limit, current:${usage.total_tokens}, limit:100`);
  t.equal((await post(service, said('x', { max_tokens: 1 }))).status, 200);
  const bob = { authorization: 'Bearer key-of-bob' };
  const day = await service.call('POST', '/chat/completions', said('x'), bob);
  t.equal(
    (await refusal(t, day)).message,
    'Your account bob<ak-setting-2> request reached TPD rate limit,current:0, limit:100',
  );
});
