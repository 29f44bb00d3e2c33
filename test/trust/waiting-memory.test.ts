/**
 * What a chat holds in memory while it waits or runs, beside its conversation, counts for its account: schemas, and what
 * an answer repeats of its request.
 */
import t from 'tap';
import { limits } from '../../src/limits/index.js';
import type { Fields } from '../support/chat-client.js';
import { openService } from '../support/service.js';
import { until } from '../support/until.js';

t.setTimeout(120_000);

const service = await openService(t);
/** Tools are part of the prompt. */
const model = 'svc-v1-128k';
/** An empty object has at least so much. */
const OBJECT_BYTES = 56;

/** Each property is two bytes of JSON and its name, and an object in memory. */
function schema(properties: number): Fields {
  const names = Array.from({ length: properties }, (_, at) => [`k${at}`, {}]);
  return { type: 'object', properties: Object.fromEntries(names) };
}

function chat(properties: number): Fields {
  const parameters = schema(properties);
  const tools = [{ type: 'function', function: { name: 'f', parameters } }];
  return { model, messages: [{ role: 'user', content: '/wait' }], tools };
}

function formatted(properties: number): Fields {
  const json_schema = { name: 'f', schema: schema(properties) };
  return { ...chat(0), response_format: { type: 'json_schema', json_schema } };
}

function response(properties: number): Fields {
  const tools = [{ type: 'function', name: 'f', parameters: schema(properties) }];
  return { model, input: '/wait', store: false, tools };
}

/** Of all requests that run. */
async function heldBytes(): Promise<number> {
  const text = await (await fetch(new URL('/metrics', service.url))).text();
  return Number(/^preface_http_bodies_bytes(?:\{[^}]*\})? (\d+)$/m.exec(text)?.[1] ?? Number.NaN);
}

async function running(): Promise<number> {
  const text = await (await fetch(new URL('/metrics', service.url))).text();
  return Number(/^preface_chats_running(?:\{[^}]*\})? (\d+)$/m.exec(text)?.[1] ?? Number.NaN);
}

/** Waits until it runs, and asks how much is held then. */
async function heldWhile(path: string, body: Fields): Promise<number> {
  const leave = new AbortController();
  const answer = fetch(service.url + path, {
    method: 'POST',
    headers: { authorization: 'Bearer key-of-alice', 'content-type': 'application/json' },
    body: JSON.stringify(body),
    signal: leave.signal,
  }).catch(() => null);
  await until(async () => (await running()) === 1, 20_000, 'the chat runs');
  const bytes = await heldBytes();
  leave.abort();
  await answer;
  await until(async () => (await heldBytes()) === 0, 20_000, 'all is given back');
  // Else the next one could be taken for running because this one still is.
  await until(async () => (await running()) === 0, 20_000, 'it runs no more');
  return bytes;
}

t.test('schemas, and what a response repeats, count until the answer', async (t) => {
  const asked: readonly [name: string, path: string, body: (properties: number) => Fields][] = [
    ['tools', '/chat/completions', chat],
    ['a format', '/chat/completions', formatted],
    ['tools of a response', '/responses', response],
  ];
  for (const [name, path, body] of asked) {
    // One that is parsed on the main thread, and one in a thread of its own.
    for (const properties of [2_000, 8_000]) {
      const isFar = JSON.stringify(body(properties)).length > limits.bodyNearBytesMax;
      t.equal(isFar, properties === 8_000);
      const held = await heldWhile(path, body(properties));
      t.ok(held >= properties * OBJECT_BYTES, `${name}, ${properties} objects: ${held} bytes`);
    }
  }
});

t.test('one account cannot have many of them wait', async (t) => {
  const body = JSON.stringify(formatted(20_000));
  const leave = new AbortController();
  const headers = { authorization: 'Bearer key-of-alice', 'content-type': 'application/json' };
  const statuses: number[] = [];
  const send = async () => {
    const sent = { method: 'POST', headers, body, signal: leave.signal };
    const answer = await fetch(`${service.url}/chat/completions`, sent).catch(() => null);
    if (answer !== null) statuses.push(answer.status);
  };
  const sent = Array.from({ length: 60 }, send);
  await until(() => statuses.length > 0, 60_000, 'one is refused');
  const held = await heldBytes();
  t.ok(held <= limits.bodyBytesHeldOwnerMax + 2 * 2 ** 20, `${held} bytes`);
  t.ok(statuses.every((status) => status === 429));
  leave.abort();
  await Promise.all(sent);
  await until(async () => (await heldBytes()) === 0, 20_000, 'all is given back');
});
