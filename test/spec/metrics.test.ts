/** What an operator sees: the figures of a service that answered, and who may read them. */
import t from 'tap';
import {
  askWith,
  createCache,
  readyCache,
  said as saying,
  untilCache,
} from '../support/cache-client.js';
import { post, said } from '../support/chat-client.js';
import { enginePid } from '../support/engine-pid.js';
import { openSingle } from '../support/engine-turns.js';
import { type Family, lint, readExposition, type Sample } from '../support/exposition.js';
import { contentOf, gatedEnv, upload } from '../support/file-client.js';
import { events, openService, type TestService } from '../support/service.js';
import { until } from '../support/until.js';

// Whole services, one after the other, on a machine that may be busy.
t.setTimeout(180_000);

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
    t.equal((await fetch(url)).status, 200);
    const ofProxy = [
      ['X-Forwarded-For', '203.0.113.9'],
      ['X-Forwarded-Host', 'chat.example'],
      ['X-Forwarded-Proto', 'https'],
      ['Forwarded', 'for=203.0.113.9'],
      ['Via', '1.1 proxy'],
    ] as const;
    for (const [name, value] of ofProxy) {
      t.equal((await fetch(url, { headers: { [name]: value } })).status, 404, name);
    }
    const closed = await openService(t, { PREFACE_METRICS_KEY: 'the-key-of-the-figures' });
    const ask = async (key: string) =>
      await fetch(new URL('/metrics', closed.url), { headers: { authorization: `Bearer ${key}` } });
    t.equal((await ask('key-of-alice')).status, 401);
    t.equal((await fetch(new URL('/metrics', closed.url))).status, 401);
    t.equal((await ask('the-key-of-the-figures')).status, 200);
  },
);

async function families(service: TestService): Promise<Map<string, Family>> {
  const response = await fetch(new URL('/metrics', service.url));
  return readExposition(await response.text());
}

/** Samples of a family that have these labels, as one sum. */
async function figure(
  service: TestService,
  name: string,
  labels: Sample['labels'] = {},
): Promise<number> {
  const samples = (await families(service)).get(name.replace(/_(count|sum)$/, ''))?.samples ?? [];
  const wanted = Object.entries(labels);
  return samples
    .filter((sample) => sample.name === name)
    .filter((sample) => wanted.every(([label, value]) => sample.labels[label] === value))
    .reduce((sum, { value }) => sum + value, 0);
}

t.test('chats: tokens in, out and saved, times, caches by what became of them', async (t) => {
  const service = await openService(t);
  const prefix = [saying('a prefix that is cached')];
  const cache = await readyCache(service, { messages: prefix });
  const full = [...prefix, saying('four')];
  await askWith(service, cache.id, full);
  await askWith(service, cache.id, full, { headers: { 'x-svc-context-cache-dryrun': '1' } });
  await askWith(service, cache.id, [saying('another text')]);
  await askWith(service, 'cache-aaaaaaaaaaaaaaaaaaaa', full);
  const expired = await createCache(service, { messages: prefix, expired_at: 1 });
  await untilCache(service, expired.id, { status: 'error' });
  await askWith(service, expired.id, full);
  const lookups = async (status: string, reason: string) =>
    await figure(service, 'preface_cache_lookups_total', { status, reason });
  t.equal(await lookups('hit', ''), 1, 'a dry run is none');
  t.equal(await lookups('miss', 'content'), 1);
  t.equal(await lookups('unknown', 'unknown'), 1);
  t.equal(await lookups('error', 'failed'), 1);
  const model = { model: 'svc-v1-8k' };
  t.equal(await figure(service, 'preface_saved_tokens_total', model), cache.tokens);
  t.equal(await figure(service, 'preface_completion_tokens_total', model), 3 * 4 + 12);
  const { usage } = (await (await post(service, said('x'))).json()) as {
    usage: { prompt_tokens: number };
  };
  const before = await figure(service, 'preface_prompt_tokens_total', model);
  t.ok(before > usage.prompt_tokens);
  await (await post(service, said('y'))).text();
  const after = await figure(service, 'preface_prompt_tokens_total', model);
  t.equal(after - before, usage.prompt_tokens);
  for (const name of ['first_content', 'queue']) {
    t.equal(await figure(service, `preface_chat_${name}_seconds_count`), 6, name);
  }
});

t.test('errors by type, streams that broke, engines that ended', async (t) => {
  const service = await openService(t, { PREFACE_ENGINE_PROCESS: 'true' });
  t.equal((await post(service, said(''))).status, 400);
  t.equal((await post(service, said('/fail one'))).status, 500);
  await events(await post(service, said('/fail one', { stream: true }))).catch(() => {});
  const errors = async (type: string) => await figure(service, 'preface_errors_total', { type });
  t.equal(await errors('invalid_request_error'), 1);
  t.equal(await errors('server_error'), 2);
  t.equal(await figure(service, 'preface_stream_errors_total'), 1);
  const route = '/v1/chat/completions';
  const requests = (status: string) =>
    figure(service, 'preface_http_requests_total', { route, status });
  t.same([await requests('400'), await requests('500'), await requests('200')], [1, 1, 1]);
  t.equal(await figure(service, 'preface_faults_total'), 0, 'none is a fault of the service');
  process.kill(enginePid(), 'SIGKILL');
  const restarts = () => figure(service, 'preface_worker_restarts_total', { worker: 'inference' });
  await until(async () => (await restarts()) > 0);
  t.equal(await restarts(), 1);
});

t.test('what waits, what runs, and what there is room for', async (t) => {
  const service = await openSingle(t, { limits: { inferQueue: 1 } });
  const first = await post(service, said('/wait', { stream: true }));
  const second = post(service, said('waits', { max_tokens: 50 }));
  const queue = async (what: string) => await figure(service, `preface_queue_${what}`);
  await until(async () => (await queue('chats')) > 0);
  t.ok((await queue('tokens')) > 50);
  t.equal(await figure(service, 'preface_slots', { model: 'svc-v1-8k' }), 1);
  t.equal(await figure(service, 'preface_chats_running'), 1);
  t.equal(await figure(service, 'preface_chats_waiting'), 1);
  t.ok((await figure(service, 'preface_http_requests_active')) >= 2);
  t.equal((await post(service, said('no room'))).status, 429);
  const type = 'engine_overloaded_error';
  t.equal(await figure(service, 'preface_errors_total', { type }), 1);
  const before = await figure(service, 'preface_prompt_tokens_total');
  await first.body?.cancel();
  t.equal((await second).status, 200);
  t.ok((await figure(service, 'preface_prompt_tokens_total')) > before, 'what ran is counted');
  t.equal(await queue('chats'), 0);
});

t.test('documents by format and outcome, and what lies on the disk', async (t) => {
  const service = await openService(t, { ...gatedEnv, PREFACE_ENGINE_PROCESS: 'true' });
  const good = await upload(service, JSON.stringify({ text: 'words' }));
  t.equal((await contentOf(service, good.id)).content, 'words');
  const bad = await upload(service, JSON.stringify({ refusal: 'it is torn' }));
  await t.rejects(contentOf(service, bad.id), /torn/);
  const documents = async (outcome: string) =>
    await figure(service, 'preface_extractions_total', { format: 'text/x-gated', outcome });
  t.same([await documents('ok'), await documents('failed')], [1, 1]);
  t.equal(await figure(service, 'preface_extraction_duration_seconds_count'), 2);
  for (const part of ['records', 'keys']) {
    t.ok((await figure(service, 'preface_disk_bytes', { part })) > 0, part);
  }
  t.ok((await figure(service, 'preface_disk_free_bytes')) > 0);
  for (const process of ['main', 'inference']) {
    t.ok((await figure(service, 'preface_resident_memory_bytes', { process })) > 0, process);
  }
  t.ok((await figure(service, 'preface_cpu_seconds_total')) > 0);
  t.ok((await figure(service, 'preface_heap_used_bytes')) > 0);
  t.ok(Math.abs((await figure(service, 'preface_start_time_seconds')) - Date.now() / 1000) < 600);
  t.ok((await families(service)).get('preface_event_loop_lag_seconds')?.samples.length === 3);
});

t.test('the rules of the format and of names are kept', async (t) => {
  const service = await openService(t);
  await (await post(service, said('one'))).text();
  const found = await families(service);
  t.same(lint(found.values()), []);
  t.ok([...found.keys()].every((name) => name.startsWith('preface_')));
  const bad = '# HELP a_ms x\n# TYPE a_ms counter\na_ms{b="1"} 2\na_ms{b="1"} 2\n';
  t.equal(lint(readExposition(bad).values()).length, 3, 'the lint finds what is wrong');
});
