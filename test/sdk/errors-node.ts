/**
 * Makes each refusal of a list happen through the Node SDK named on the command line, and looks at what is raised;
 * prints one JSON line a case. It must never import anything of the service: the list is all it knows.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import type OpenAI from 'openai';
import type { toFile as ToFile } from 'openai';
import type { ErrorCase } from './errors.js';

const [packageName = 'openai'] = process.argv.slice(2);
const { default: sdk, toFile } = (await import(packageName)) as {
  default: typeof OpenAI;
  toFile: typeof ToFile;
};

async function call(each: ErrorCase): Promise<unknown> {
  const { url: baseURL, key: apiKey, authorization } = each;
  const defaultHeaders = authorization === undefined ? {} : { Authorization: authorization };
  const client = new sdk({ baseURL, apiKey, maxRetries: 0, timeout: 60_000, defaultHeaders });
  const body = each.body as unknown as OpenAI.Chat.ChatCompletionCreateParamsNonStreaming;
  switch (each.call) {
    case 'chat':
      return await client.chat.completions.create(body);
    case 'stream':
      for await (const _chunk of await client.chat.completions.create({ ...body, stream: true }));
      return null;
    case 'upload': {
      const file = await toFile(Buffer.alloc(each.bytes ?? 0, 'x'), 'a.txt');
      // A purpose that the SDK's types do not know.
      const purpose = (each.purpose ?? 'file-extract') as 'user_data';
      return await client.files.create({ file, purpose });
    }
    case 'content':
      return await client.files.content(each.id ?? '');
    case 'get':
      return await client.get(each.path ?? '');
  }
}

function header(headers: unknown, name: string): string | null {
  if (headers instanceof Headers) return headers.get(name);
  return (headers as Record<string, string | undefined>)[name] ?? null;
}

async function check(each: ErrorCase): Promise<void> {
  for (let i = 0; i < (each.before ?? 0); i += 1) await call(each).catch(() => null);
  const raised: unknown = await call(each).then(
    () => new Error('nothing was raised'),
    (cause: unknown) => cause,
  );
  assert.ok(raised instanceof sdk.APIError, String(raised));
  const { status, error, headers } = raised as InstanceType<typeof sdk.APIError>;
  // Where Python has a name for all others with a status, Node has their common parent.
  assert.equal(raised.constructor.name, each.class.replace('APIStatusError', 'APIError'));
  assert.equal(status, each.status);
  const { type, message } = error as { type: string; message: string };
  assert.equal(type, each.type);
  assert.match(message, new RegExp(each.message));
  assert.equal(header(headers, 'x-should-retry'), each.retry);
  assert.ok(header(headers, 'x-request-id'));
}

async function report(step: string, act: () => Promise<void>): Promise<void> {
  const began = performance.now();
  const error = await act().then(
    () => undefined,
    (cause: unknown) => (cause instanceof Error ? cause.stack : String(cause)),
  );
  const ms = performance.now() - began;
  process.stdout.write(`${JSON.stringify({ step, ok: error === undefined, ms, error })}\n`);
}

const cases = JSON.parse(readFileSync(`${process.env.CASES}`, 'utf8')) as readonly ErrorCase[];
for (const each of cases) await report(each.name, () => check(each));
await report('end', async () => {});
