/**
 * §7: a client that waits as long as it is told gets in; windows outlive a restart and a kill; nobody overdraws.
 */
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import OpenAI from 'openai';
import t, { type Test } from 'tap';
import { decodeRecord, encodeRecord } from '../../src/codec.js';
import { newAccount } from '../../src/rules/account.js';
import { addedTo, emptyWindow } from '../../src/rules/rate-window.js';
import { LmdbStore } from '../../src/store/lmdb-store.js';
import type { Store } from '../../src/store/store.js';
import { compiledOnce, pythonVenv, pythonVersions } from '../sdk/python-venv.js';
import {
  openProbe,
  openWithSettings,
  post,
  refusal,
  said,
  wrapTokens,
} from '../support/chat-client.js';
import { aliceKey, openService, type TestService, temporaryFolder } from '../support/service.js';
import { startServiceProcess } from '../support/service-process.js';

t.setTimeout(180_000);

const adminKey = 'the-key-of-the-operator';
const record = ['account', 'alice'];

/** A minute in which `count` requests and `tokens` were used, of which `leftMs` are left. */
async function seed(dataDir: string, leftMs: number, count: number, tokens: number) {
  const store = LmdbStore.open({ folder: dataDir, name: 'records', exclusive: true });
  const span = { windowMs: 60_000, bucketMs: 1_000 };
  const usedMs = Date.now() - 60_000 + leftMs;
  const requests = addedTo(emptyWindow, span, count, usedMs);
  const minute = addedTo(emptyWindow, span, tokens, usedMs);
  const account = newAccount();
  const value = encodeRecord({ ...account, rates: { ...account.rates, requests, minute } });
  await store.commit([{ type: 'put', key: record, value }]);
  await store.flushed();
  await store.close();
}

const sdk = (service: { readonly url: string }, maxRetries = 2) =>
  new OpenAI({ baseURL: service.url, apiKey: aliceKey, maxRetries });

const ask = (client: OpenAI) =>
  client.chat.completions.create({
    model: 'svc-v1-8k',
    messages: [{ role: 'user', content: 'x' }],
    max_tokens: 10,
  });

/** A busy machine may take most of a window to start the service: then another one starts in a longer window. */
const windowsMs = [20_000, 40_000, 59_000];
/** So much of it is left for those who ask then. */
const LEFT_MS_MIN = 10_000;

/** A service that has refused a request, and goes on to for the time that it told. */
async function refusing(t: Test, grant: object, requests: number, tokens: number) {
  for (const leftMs of windowsMs) {
    const dataDir = temporaryFolder(t);
    await seed(dataDir, leftMs, requests, tokens);
    const accounts = { default: grant };
    const service = await openWithSettings(t, { accounts }, { PREFACE_DATA_DIR: dataDir });
    const { status, headers } = await post(service, said('x', { max_tokens: 10 }));
    const waitMs = Number(headers.get('retry-after-ms'));
    t.ok(waitMs <= leftMs, `${waitMs} ms`);
    if (status === 429 && waitMs >= LEFT_MS_MIN) return { service, waitMs };
  }
  throw new Error('no window was long enough, or nothing is refused');
}

t.test('requests and tokens a minute: raw and by the retry of the SDK', async (t) => {
  const kinds = { requests: { rpm: 3 }, tokens: { tpm: 100 } };
  const tries = Object.entries(kinds).map(async ([name, grant]) => {
    const { service, waitMs } = await refusing(t, grant, 3, 90);
    const bySdk = ask(sdk(service));
    await delay(waitMs);
    t.equal((await post(service, said('x', { max_tokens: 10 }))).status, 200, `${name}: raw`);
    t.equal((await bySdk).choices.length, 1, `${name}: the SDK`);
  });
  await Promise.all(tries);
});

t.test('the Python SDK waits as long, too', async (t) => {
  // Whatever takes its time comes before the window begins.
  const clients = await Promise.all(Object.entries(pythonVersions).map(readyPython));
  const { url } = (await refusing(t, { rpm: 3 }, 3, 0)).service;
  const runs = clients.map(async ({ name, missing, said }) => {
    if (missing !== undefined) return t.pass(name, { skip: missing });
    return t.match(await said(url), /^429 then chat\.completion$/m, name);
  });
  await Promise.all(runs);
});

interface Python {
  readonly name: string;
  readonly missing?: string;
  /** What it printed in the end. */
  said(url: string): Promise<string>;
}

/** Has loaded the SDK, and waits for the address. */
async function readyPython([name, packages]: [string, readonly string[]]): Promise<Python> {
  const venv = await pythonVenv(name, packages);
  if ('missing' in venv) return { name, missing: venv.missing, said: async () => '' };
  const env = { OPENAI_API_KEY: aliceKey, ...compiledOnce };
  const running = promisify(execFile)(venv.python, ['-c', pythonChat], { env });
  const { stdin, stdout } = running.child;
  if (stdout !== null) await Promise.race([once(stdout, 'data'), running]);
  const said = async (url: string) => {
    stdin?.end(`${url}\n`);
    return (await running).stdout;
  };
  return { name, said };
}

/** Once without, once with the SDK's own retry. */
const pythonChat = `
import openai
print("ready", flush=True)
url = input()
def ask(**options):
    client = openai.OpenAI(base_url=url, **options)
    return client.chat.completions.create(model="svc-v1-8k", messages=[{"role": "user", "content": "x"}])
try:
    ask(max_retries=0)
except openai.RateLimitError as error:
    print(error.status_code, "then", ask().object)
`;

import { until } from '../support/until.js';

t.test('concurrency: the wait is as long as places are held', async (t) => {
  const service = await openProbe(t, { accounts: { default: { concurrency: 1 } } });
  const held = await post(service, said('/hang', { stream: true }));
  const heldFromMs = performance.now();
  await until(() => performance.now() > heldFromMs + 1_500);
  const heldMs = Math.floor(performance.now() - heldFromMs);
  const refused = await post(service, said('x'));
  const waitMs = Number(refused.headers.get('retry-after-ms'));
  const found = await refusal(t, refused);
  t.ok(waitMs >= heldMs, `${waitMs} ms for ${heldMs} ms`);
  t.match(found.message, new RegExp(`again after ${Math.ceil(waitMs / 1000)} seconds$`));
  const bySdk = ask(sdk(service));
  await held.body?.cancel();
  t.equal((await bySdk).choices.length, 1);
});

t.test('more than a whole window is told not to retry, and the SDK obeys', async (t) => {
  const service = await openWithSettings(t, {
    accounts: { users: { alice: { tpm: 50 }, bob: { tpd: 50 } } },
  });
  for (const key of [aliceKey, 'key-of-bob']) {
    const headers = { authorization: `Bearer ${key}` };
    const body = said('x', { max_tokens: 100 });
    const response = await service.call('POST', '/chat/completions', body, headers);
    t.equal(response.headers.get('x-should-retry'), 'false');
    t.equal(response.headers.get('retry-after'), null);
    t.equal(response.status, 429);
  }
});

interface Shown {
  readonly running: number;
  readonly balance: Record<'spent' | 'reserved' | 'available', number>;
  readonly rates: { readonly tokens: { readonly remaining: number } };
  readonly today: { readonly completion_tokens: number };
}

async function shown(service: Pick<TestService, 'url'>, body?: object): Promise<Shown> {
  const response = await fetch(`${service.url.slice(0, -3)}/admin/v1/users/alice`, {
    method: body ? 'POST' : 'GET',
    headers: { authorization: `Bearer ${adminKey}` },
    ...(body && { body: JSON.stringify(body) }),
  });
  return (await response.json()) as Shown;
}

async function idle(service: Pick<TestService, 'url'>): Promise<Shown> {
  const look = async (): Promise<Shown | null> => {
    const user = await shown(service);
    return user.running === 0 ? user : null;
  };
  return (await until(look, 20_000, 'nothing runs')) as Shown;
}

t.test('a stream that the client left is settled with what it used', async (t) => {
  const admin = await openProbeWithAdmin(t);
  await shown(admin, { balance: 100_000, tpm: 50_000 });
  const question = '/stall abcdef';
  const answer = await post(admin, said(question, { stream: true, max_tokens: 8_000 }));
  const reader = answer.body?.getReader();
  let got = '';
  while (!got.includes('abcdef')) got += Buffer.from((await reader?.read())?.value ?? []);
  t.ok((await shown(admin)).balance.reserved >= 8_000);
  await reader?.cancel();
  const user = await idle(admin);
  const used = wrapTokens + question.length + 'abcdef'.length;
  t.match(user.balance, { spent: used, reserved: 0 });
  t.equal(user.rates.tokens.remaining, 50_000 - used);
  t.equal(user.today.completion_tokens, 'abcdef'.length);
});

function openProbeWithAdmin(t: Parameters<typeof openProbe>[0]): Promise<TestService> {
  const engine = new URL('../support/engine-probe.js', import.meta.url).pathname;
  const defaults = { engine, tokenizer: 'bytes', weights: null };
  return openWithSettings(t, { defaults }, { PREFACE_ADMIN_KEY: adminKey });
}

t.test('windows outlive a restart, and after kill -9 what ran counts in full', async (t) => {
  const dataDir = temporaryFolder(t);
  const engine = new URL('../support/engine-probe.js', import.meta.url).pathname;
  const settings = {
    defaults: { engine, tokenizer: 'bytes', weights: null },
    accounts: { default: { tpm: 1_000, rpm: 100 } },
  };
  const env = { PREFACE_DATA_DIR: dataDir, PREFACE_ADMIN_KEY: adminKey };
  const first = await startServiceProcess(t, settings, env);
  const chat = (url: string, body: object) =>
    fetch(`${url}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${aliceKey}` },
      body: JSON.stringify(body),
    });
  const answered = await chat(first.url, said('x', { max_tokens: 10 }));
  const { usage } = (await answered.json()) as { usage: { total_tokens: number } };
  process.kill(first.pid, 'SIGTERM');
  await first.ended;

  const second = await startServiceProcess(t, settings, env);
  const used = 1_000 - (await shown(second)).rates.tokens.remaining;
  t.equal(used, usage.total_tokens, 'after a restart');
  const running = await chat(second.url, said('/hang', { stream: true, max_tokens: 500 }));
  t.equal(running.status, 200);
  const reserved = 1_000 - used - (await shown(second)).rates.tokens.remaining;
  t.ok(reserved > 500);
  await saved(dataDir, reserved);
  process.kill(second.pid, 'SIGKILL');
  await second.ended;

  const third = await startServiceProcess(t, settings, env);
  t.equal(1_000 - (await shown(third)).rates.tokens.remaining, used + reserved);
  const refused = await chat(third.url, said('x', { max_tokens: 480 }));
  t.equal(refused.status, 429);
});

/** Looks into the file beside the service, until the record says so. */
async function saved(dataDir: string, reserved: number): Promise<void> {
  const store: Store = LmdbStore.open({ folder: dataDir, name: 'records', exclusive: false });
  try {
    const reservedNow = () => {
      const found = store.get(record);
      return found && decodeRecord<ReturnType<typeof newAccount>>(found.value).rates.reserved;
    };
    await until(() => reservedNow() === reserved, 20_000, 'the reservation is on the disk');
  } finally {
    await store.close();
  }
}

t.test('500 at once at the end of a balance: nobody overdraws', async (t) => {
  const service = await openService(t, { PREFACE_ADMIN_KEY: adminKey });
  await shown(service, { balance: 1_000 });
  const all = await Promise.all(
    Array.from({ length: 500 }, () => post(service, said('x', { max_tokens: 10 }))),
  );
  const statuses = new Map<number, number>();
  for (const { status } of all) statuses.set(status, (statuses.get(status) ?? 0) + 1);
  t.strictSame(
    [...statuses.keys()].sort((a, b) => a - b),
    [200, 429],
  );
  const user = await idle(service);
  t.ok(user.balance.spent <= 1_000, `${user.balance.spent} of 1000`);
  t.equal(user.balance.reserved, 0);
  t.ok((statuses.get(200) ?? 0) >= 20, `${statuses.get(200)} were let in`);
});

t.test(
  'a key that is revoked in mid-stream: the stream ends as it would, nothing begins',
  async (t) => {
    const service = await openProbeWithAdmin(t);
    const keys = `${service.url.slice(0, -3)}/admin/v1/users/alice/keys`;
    const headers = { authorization: `Bearer ${adminKey}` };
    const made = await fetch(keys, { method: 'POST', headers });
    const { id, key } = (await made.json()) as { id: string; key: string };
    const asKey = { authorization: `Bearer ${key}` };
    const body = said('/endless ab', { stream: true, max_tokens: 4_000 });
    const stream = await service.call('POST', '/chat/completions', body, asKey);
    t.equal((await fetch(`${keys}/${id}`, { method: 'DELETE', headers })).status, 200);
    const refused = await refusal(t, await service.call('GET', '/models', undefined, asKey));
    t.match(refused, { status: 401, message: 'Incorrect API key provided' });
    t.match(await stream.text(), /"finish_reason":"length"[\s\S]*data: \[DONE\]\n\n$/);
    const user = await idle(service);
    t.ok(user.today.completion_tokens >= 4_000);
  },
);
