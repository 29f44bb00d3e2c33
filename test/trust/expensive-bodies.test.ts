/** Owns the proof that large bodies stop nobody: neither by the time they take, nor by the memory they hold. */
import t from 'tap';
import { limits } from '../../src/limits/index.js';
import { testSeed } from '../../src/plugin/test/random-text.js';
import { expensiveBody } from '../support/expensive-bodies.js';
import { hasThreadFigures, mainThreadCpuMs, residentBytes } from '../support/main-thread.js';
import { bobKey } from '../support/service.js';
import { startServiceProcess } from '../support/service-process.js';

t.setTimeout(480_000);
const skip = hasThreadFigures ? false : 'it reads /proc';
const MIB = 2 ** 20;

type Send = (
  bytes: Buffer,
  path?: string,
  key?: string,
) => Promise<{ status: number; text: string }>;

function sender(url: string, ownKey: string): Send {
  return async (bytes, path = '/v1/chat/completions', key = ownKey) => {
    const response = await fetch(new URL(path, url), {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: new Uint8Array(bytes),
    });
    return { status: response.status, text: await response.text() };
  };
}

const hi = '{"role":"user","content":"hi"}';
const chat = (messages: string, field = '') =>
  Buffer.from(`{"model":"svc-v1-8k","max_tokens":1,${field}"messages":[${messages}]}`);
const objects = Array(Math.floor((7.6 * MIB) / 3)).fill('{}');
const keys = Array.from({ length: 500_000 }, (_, at) => `"k${at}":1`).join(',');

t.test('what is large costs the main thread next to nothing', { skip }, async (t) => {
  const service = await startServiceProcess(t, {});
  const send = sender(service.url, service.key);
  const wide = `{"role":"user","content":"漢${'x'.repeat(7.6 * MIB)}"}`;
  const bodies: readonly [name: string, body: Buffer, path?: string][] = [
    ['objects in an unknown field', chat(hi, `"x":[${objects}],`)],
    ['objects in a message', chat(`{"role":"user","content":"hi","x":[${objects}]}`)],
    ['keys of a message', chat(`{"role":"user","content":"hi",${keys}}`)],
    ['keys of metadata', Buffer.from(`{"metadata":{${keys}}}`), '/v1/caching'],
    ['a tag', Buffer.from(`{"x":[${objects}]}`), '/v1/caching/refs/tags'],
    ['a text of two bytes a character', chat(wide)],
    ['special tokens', chat(`{"role":"user","content":"${'<|im_start|>'.repeat(600_000)}"}`)],
  ];
  // The first large body starts a thread.
  await send(chat(wide));
  for (const [name, body, path] of bodies) {
    const before = mainThreadCpuMs(service.pid);
    const { status, text } = await send(body, path);
    const tookMs = mainThreadCpuMs(service.pid) - before;
    t.equal(status, 400, `${name}: ${text.slice(0, 200)}`);
    // With the reading of eight megabytes from the socket. In one piece on the main thread: 0.4 to 5 s.
    t.ok(tookMs <= 250, `${name}: ${tookMs} ms of CPU`);
  }
});

t.test('bodies made to be expensive', { skip }, async (t) => {
  const service = await startServiceProcess(t, {});
  const send = sender(service.url, service.key);
  const seed = testSeed();
  const cpu: number[] = [];
  for (let i = 0; i < 60; i += 1) {
    const { path, kind, bytes } = expensiveBody(seed + i, 2 * MIB);
    const before = mainThreadCpuMs(service.pid);
    const { status } = await send(bytes, path);
    const tookMs = mainThreadCpuMs(service.pid) - before;
    cpu.push(tookMs);
    t.ok([200, 400].includes(status), `${status} for ${kind} of seed ${seed + i}`);
    t.ok(tookMs <= 250, `${kind} of seed ${seed + i}: ${tookMs} ms of CPU`);
  }
  t.comment(`seed ${seed}: at most ${Math.max(...cpu)} ms of the main thread's CPU for one body`);
});

t.test('two accounts cannot end the service by what they make it hold', { skip }, async (t) => {
  const service = await startServiceProcess(t, {});
  const send = sender(service.url, service.key);
  await send(chat(`{"role":"user","content":"${'a '.repeat(2 ** 16)}"}`));
  const idle = residentBytes(service.pid);
  let most = idle;
  const watch = setInterval(() => (most = Math.max(most, residentBytes(service.pid))), 50);
  t.teardown(() => clearInterval(watch));
  const texts = [
    chat(hi, `"x":[${objects}],`),
    chat(`{"role":"user","content":"hi","x":[${objects}]}`),
    chat(hi, `"x":"漢${'x'.repeat(7.6 * MIB)}",`),
  ];
  for (const body of texts) {
    const all = Array.from({ length: 26 }, (_, i) =>
      send(body, '/v1/chat/completions', i % 2 === 0 ? service.key : bobKey),
    );
    const statuses = (await Promise.all(all)).map(({ status }) => status);
    t.ok(
      statuses.every((status) => [200, 400, 429, 503].includes(status)),
      `${statuses}`,
    );
  }
  const grownMiB = Math.round((most - idle) / MIB);
  t.comment(`resident memory grew by ${grownMiB} MiB at most`);
  // What is counted, and what threads and garbage take beside it.
  t.ok(grownMiB * MIB <= 3 * limits.bodyBytesHeldMax, `${grownMiB} MiB`);
  t.equal((await send(chat(hi))).status, 200);
});
