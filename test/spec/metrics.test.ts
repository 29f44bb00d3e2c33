/** What an operator sees: the figures of a service that answered, and who may read them. */
import t from 'tap';
import { events, openService } from '../support/service.js';

const chat = { model: 'svc-v1-8k', messages: [{ role: 'user', content: 'count me' }] };

t.test('figures count what was answered, by route and status', async (t) => {
  const service = await openService(t);
  await events(await service.call('POST', '/chat/completions', { ...chat, stream: true }));
  await (await service.call('GET', '/models/none-of-these')).text();
  await (await service.call('GET', '/no/such/route')).text();
  const response = await fetch(new URL('/metrics', service.url));
  t.equal(response.status, 200);
  t.match(response.headers.get('content-type'), /^text\/plain; version=0\.0\.4/);
  const text = await response.text();
  const path = '/v1/chat/completions';
  t.match(text, `preface_http_requests_total{method="POST",route="${path}",status="200"} 1`);
  t.match(text, 'route="/v1/models/:id",status="404"} 1');
  t.match(text, 'method="any",route="none",status="404"} 1');
  t.notMatch(text, /none-of-these|no\/such/, 'no label comes from a client');
  t.match(text, /^preface_chat_first_content_seconds_count 1$/m);
  t.match(text, /^preface_prompt_tokens_total\{model="svc-v1-8k"\} [1-9]/m);
  t.match(text, /^preface_completion_tokens_total\{model="svc-v1-8k"\} [1-9]/m);
  t.match(text, /^preface_disk_bytes\{part="records"\} [1-9]/m);
  t.match(text, /^preface_chats_running 0$/m);
  const names = [...text.matchAll(/^# TYPE (\S+)/gm)].map(([, name]) => name);
  t.ok(names.every((name) => name?.startsWith('preface_')));
});

t.test(
  'without a key of their own only this machine reads them, with one its holder',
  async (t) => {
    const open = await openService(t);
    const url = new URL('/metrics', open.url);
    const forwarded = { headers: { 'x-forwarded-for': '203.0.113.9' } };
    t.equal((await fetch(url, forwarded)).status, 404);
    const closed = await openService(t, { PREFACE_METRICS_KEY: 'the-key-of-the-figures' });
    const ask = async (key: string) =>
      await fetch(new URL('/metrics', closed.url), { headers: { authorization: `Bearer ${key}` } });
    t.equal((await ask('key-of-alice')).status, 401);
    t.equal((await fetch(new URL('/metrics', closed.url))).status, 401);
    t.equal((await ask('the-key-of-the-figures')).status, 200);
  },
);
