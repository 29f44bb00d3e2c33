/**
 * Faults of the machine under a running service: each costs the requests it concerns a clear 5xx, and when it is over the
 * service goes on without being started again.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { linkSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { createCache, said as saying } from '../support/cache-client.js';
import { answerTo, openWithSettings, post, refusal, said } from '../support/chat-client.js';
import { enginePid } from '../support/engine-pid.js';
import { form, purpose, send, upload } from '../support/file-client.js';
import { RawClient, request } from '../support/raw-client.js';
import { aliceKey, openService, type TestService, temporaryFolder } from '../support/service.js';
import { startServiceProcess } from '../support/service-process.js';
import { until } from '../support/until.js';
import { skipWithoutWeights, smallModelPath } from '../support/weights.js';

t.setTimeout(0);

const MIB = 2 ** 20;
const RECOVERY_MS_MAX = 30_000;

function caller(url: string): TestService {
  const call: TestService['call'] = (method, path, body, headers) =>
    fetch(url + path, {
      method,
      headers: {
        authorization: `Bearer ${aliceKey}`,
        'content-type': 'application/json',
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
  return { url, dataDir: '', log: [], call, close: async () => {} };
}

/** Tries until it succeeds. @throws the last failure, when that takes too long. */
async function recovered(t: Test, name: string, task: () => Promise<unknown>): Promise<void> {
  const beganMs = performance.now();
  let failure: unknown;
  const succeeds = () =>
    task().then(
      () => true,
      (cause: unknown) => {
        failure = cause;
        return false;
      },
    );
  await until(succeeds, RECOVERY_MS_MAX, name).catch(() => {
    throw failure;
  });
  t.pass(`${name}: well again after ${Math.round(performance.now() - beganMs)} ms`);
}

const disk = join(temporaryFolder(t), 'disk');
mkdirSync(disk);
const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${24 * MIB}`, 'preface', disk]);
const skipDisk =
  mounted.status === 0 ? false : `mount is not permitted: ${mounted.stderr?.toString().trim()}`;

t.test('a full disk', { skip: skipDisk }, async (t) => {
  const env = { PREFACE_DATA_DIR: join(disk, 'data') };
  const process_ = await startServiceProcess(t, {}, env);
  // Teardowns run in order: the service has ended by then.
  t.teardown(() => execFileSync('umount', ['-l', disk]));
  const service = caller(process_.url);
  const kept = await createCache(service, { messages: [saying('kept')] });

  const filler = join(disk, 'filler');
  spawnSync('dd', ['if=/dev/zero', `of=${filler}`, 'bs=64k'], { stdio: 'ignore' });
  const answer = await send(service, form([purpose, ['file', 'x'.repeat(MIB), 'a.txt']]));
  t.match(await refusal(t, answer), { status: 503, type: 'server_error' }, 'an upload');
  const statuses = new Set<number>();
  for (let i = 0; i < 40; i += 1) {
    const text = `${i} ${'y'.repeat(64 * 1024)}`;
    const body = { model: 'svc-v1', messages: [saying(text)] };
    const made = await service.call('POST', '/caching', body);
    statuses.add(made.status);
    if (made.status === 200) await made.text();
    else t.match(await refusal(t, made), { status: 503, type: 'server_error' }, 'a cache');
  }
  t.ok(statuses.has(503), `creations: ${[...statuses].join()}`);
  t.equal(await answerTo(service, said('needs no disk')), 'needs no disk');
  t.equal((await service.call('GET', `/caching/${kept.id}`)).status, 200, 'what is there is read');

  rmSync(filler);
  await recovered(t, 'disk', async () => {
    await createCache(service, { messages: [saying('after')] });
    await upload(service, 'some text');
  });
  t.equal((await service.call('GET', `/caching/${kept.id}`)).status, 200, 'nothing was lost');
});

t.test('the database is full', async (t) => {
  const service = await openWithSettings(t, {
    accounts: { users: { alice: { cachedTokens: 1_000_000_000 } } },
    limits: { recordsBytes: '16MiB' },
  });
  const texts = Array.from({ length: 400 }, (_, i) => `${i} ${'y'.repeat(64 * 1024)}`);
  const made: string[] = [];
  for (const text of texts) {
    const answer = await service.call('POST', '/caching', {
      model: 'svc-v1',
      messages: [saying(text)],
    });
    if (answer.status === 200) {
      made.push(((await answer.json()) as { id: string }).id);
      continue;
    }
    const wait = answer.headers.get('retry-after');
    const { status, message } = await refusal(t, answer);
    t.same({ status, wait }, { status: 503, wait: '5' });
    t.match(message, /its records have reached their bound of 16777216 bytes$/);
    break;
  }
  t.ok(made.length > 50 && made.length < texts.length, `${made.length} caches`);
  t.equal(await answerTo(service, said('needs no room')), 'needs no room');
  const [first = '', ...others] = made;
  t.equal((await service.call('GET', `/caching/${first}`)).status, 200, 'what is there is read');
  for (const id of others.slice(0, 20)) {
    t.equal((await service.call('DELETE', `/caching/${id}`)).status, 200, 'and removed');
  }
  await recovered(t, 'database', async () => {
    await createCache(service, { messages: [saying('after')] });
    await upload(service, 'some text');
  });
  t.equal((await service.call('GET', `/caching/${first}`)).status, 200, 'nothing was lost');
});

const skipLimit = spawnSync('prlimit', ['--version']).status === 0 ? false : 'there is no prlimit';

t.test('no file descriptor is left', { skip: skipLimit }, async (t) => {
  const process_ = await startServiceProcess(t, {});
  const service = caller(process_.url);
  const client = new RawClient(Number(new URL(process_.url).port));
  t.teardown(() => client.destroy());
  const head = [`Authorization: Bearer ${aliceKey}`, 'Content-Type: application/json'];
  const chat = JSON.stringify(said('over the same connection'));
  const ask = async () => {
    client.text = '';
    client.send(request('POST /v1/chat/completions', [...head, length(chat)], chat));
    return await client.answer('"usage"', RECOVERY_MS_MAX);
  };
  t.match(await ask(), /^HTTP\/1\.1 200 /);
  // What is open for a moment only would leave its number: with the limit nothing new takes one.
  await until(() => {
    const free = lowestFree(process_.pid);
    limitFiles(process_.pid, free);
    return lowestFree(process_.pid) === free;
  });
  const parts = [
    '--x\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nfile-extract\r\n',
    '--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\ntext\r\n--x--\r\n',
  ].join('');
  client.text = '';
  const type = 'Content-Type: multipart/form-data; boundary=x';
  client.send(request('POST /v1/files', [head[0] ?? '', type, length(parts)], parts));
  t.match(await client.answer('}}', RECOVERY_MS_MAX), /^HTTP\/1\.1 503 [\s\S]*"server_error"/);
  t.match(await ask(), /^HTTP\/1\.1 200 /, 'what needs no file goes on');
  limitFiles(process_.pid, 20_000);
  await recovered(t, 'descriptors', () => upload(service, 'some text'));
});

function length(body: string): string {
  return `Content-Length: ${Buffer.byteLength(body)}`;
}

/** A limit of this leaves no number for another file. */
function lowestFree(pid: number): number {
  const open = new Set(readdirSync(`/proc/${pid}/fd`).map(Number));
  let free = 0;
  while (open.has(free)) free += 1;
  return free;
}

function limitFiles(pid: number, count: number): void {
  execFileSync('prlimit', [`--pid=${pid}`, `--nofile=${count}:`]);
}

t.test('a clock that jumps forward and back', async (t) => {
  const real = Date.now;
  let offsetMs = 0;
  Date.now = () => real() + offsetMs;
  t.teardown(() => {
    Date.now = real;
  });
  const service = await openWithSettings(t, {
    accounts: { users: { alice: { rpm: 1_000, tpm: 1_000_000 } } },
  });
  const cache = await createCache(service, { messages: [saying('here')], ttl: 600 });
  const status = async () =>
    ((await (await service.call('GET', `/caching/${cache.id}`)).json()) as { status: string })
      .status;
  for (const hours of [0, 3, -3, 0, 20, -20, 0]) {
    offsetMs = hours * 3_600_000;
    t.equal(await answerTo(service, said(`${hours}`)), `${hours}`, `${hours} h`);
    const made = await createCache(service, { messages: [saying(`at ${hours}`)], ttl: 60 });
    t.ok(made.expired_at > made.created_at, 'times of new ones are those of the clock');
    t.ok(['pending', 'ready', 'inactive'].includes(await status()), 'the cache is not lost');
  }
});

t.test('a jump of the clock locks nobody out, and lets nobody through twice', async (t) => {
  const real = Date.now;
  let offsetMs = 0;
  Date.now = () => real() + offsetMs;
  t.teardown(() => {
    Date.now = real;
  });
  const service = await openWithSettings(t, { accounts: { users: { alice: { rpm: 3 } } } });
  for (let i = 0; i < 3; i += 1) await answerTo(service, said(`${i}`));
  for (const hours of [-5, 5]) {
    offsetMs = hours * 3_600_000;
    const response = await post(service, said('one more'));
    if (response.status === 200) {
      await response.text();
      continue;
    }
    const wait = Number(response.headers.get('retry-after'));
    t.ok(wait > 0 && wait <= 60, `${hours} h: told to wait ${wait} s`);
    await response.text();
  }
});

t.test('the weights are removed under way', { skip: skipWithoutWeights }, async (t) => {
  const models = temporaryFolder(t);
  const file = join(models, 'SmolLM2-135M-Instruct.Q4_1.gguf');
  linkOrCopy(file);
  const env = {
    PREFACE_ENGINE: 'llama',
    PREFACE_THREADS: '1,1',
    PREFACE_SLOTS: '1',
    PREFACE_MODELS_DIR: models,
  };
  const service = await openService(t, env);
  const short = said('Hi', { max_tokens: 2 });
  await answerTo(service, short);
  rmSync(file);
  await answerTo(service, short);
  t.pass('what is loaded goes on');
  process.kill(enginePid(), 'SIGKILL');
  const beganMs = performance.now();
  const seen = new Set<number>();
  while (performance.now() - beganMs < 3_000) {
    const found = await refusal(t, await post(service, short));
    seen.add(found.status);
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  t.ok(
    [...seen].every((status) => status === 500 || status === 503),
    [...seen].join(),
  );
  t.equal((await service.call('GET', '/models')).status, 200, 'the rest goes on');
  linkOrCopy(file);
  await recovered(t, 'weights', () => answerTo(service, short));
});

function linkOrCopy(file: string): void {
  try {
    linkSync(smallModelPath, file);
  } catch {
    execFileSync('cp', [smallModelPath, file]);
  }
}
