/**
 * Owns the steps that black-box tests of chats share: the body, the answer, the refusal.
 * It must never accept an answer that a client would not.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Test } from 'tap';
import type { chunkSchema, WireCompletion } from '../../src/protocol/completion.js';
import type { Static } from '../../src/protocol/schema.js';
import { events, openService, type TestService, temporaryFolder } from './service.js';

export type Chunk = Static<typeof chunkSchema>;
export type Fields = Readonly<Record<string, unknown>>;

export const model = 'svc-v1-8k';
export const invalidType = 'invalid_request_error';

/** Bytes of the echo model's prompt around one user message: its tokens are bytes. */
export const wrapTokens = 19;

export function said(content: unknown, more: Fields = {}): Fields {
  return { model, messages: [{ role: 'user', content }], ...more };
}

export function post(service: TestService, body: unknown): Promise<Response> {
  return service.call('POST', '/chat/completions', body);
}

export async function complete(service: TestService, body: unknown): Promise<WireCompletion> {
  const response = await post(service, body);
  if (response.status !== 200) throw new Error(`${response.status}: ${await response.text()}`);
  return (await response.json()) as WireCompletion;
}

/** The text of the only choice. */
export async function answerTo(service: TestService, body: unknown): Promise<string> {
  return (await complete(service, body)).choices[0]?.message.content ?? '';
}

/** The chunks of a complete stream. */
export async function chunks(service: TestService, body: Fields): Promise<Chunk[]> {
  const response = await post(service, { ...body, stream: true });
  if (response.status !== 200) throw new Error(`${response.status}: ${await response.text()}`);
  const all = await events(response);
  if (all.at(-1) !== '[DONE]') throw new Error(`ends with ${JSON.stringify(all.at(-1))}`);
  return all.slice(0, -1) as Chunk[];
}

/** The pieces of text of one choice of a stream. */
export function pieces(stream: readonly Chunk[], choice = 0): string[] {
  return stream
    .flatMap(({ choices }) => choices.filter(({ index }) => index === choice))
    .flatMap(({ delta }) => (delta.content === undefined ? [] : [delta.content]))
    .filter((text) => text !== '');
}

export interface Refusal {
  readonly status: number;
  readonly type: string;
  readonly message: string;
  readonly param?: string;
}

/** An error answer, after the checks that every error answer must pass. */
export async function refusal(t: Test, response: Response, name = ''): Promise<Refusal> {
  const text = await response.text();
  t.equal(response.headers.get('content-type'), 'application/json', `${name} content type`);
  t.match(response.headers.get('x-request-id'), /^\S+$/, `${name} has a request id`);
  t.ok(text.startsWith('{"error":{'), `${name} begins with the error: ${text.slice(0, 80)}`);
  const envelope = JSON.parse(text) as { error: Record<string, string> };
  t.same(Object.keys(envelope), ['error'], `${name} has one top-level key`);
  const { type = '', message = '', param } = envelope.error;
  return { status: response.status, type, message, ...(param === undefined ? {} : { param }) };
}

/** Posts a chat that must be refused with 400 `invalid_request_error` and exactly this text. */
export async function refused(
  t: Test,
  service: TestService,
  body: unknown,
  message: string,
): Promise<void> {
  const name = message.slice(0, 100);
  const found = await refusal(t, await post(service, body), name);
  t.match(found, { status: 400, type: invalidType, message }, name);
  t.equal(found.message, message, name);
}

/** A service whose settings file holds these tables. */
export async function openWithSettings(
  t: Test,
  settings: Fields,
  env: Readonly<Record<string, string>> = {},
): Promise<TestService> {
  const file = join(temporaryFolder(t), 'settings.json');
  writeFileSync(file, JSON.stringify(settings));
  return await openService(t, { PREFACE_CONFIG: file, ...env });
}

/** A service on the engine of `engine-probe.ts`, which answers as it is told and notes its generations. */
export function openProbe(t: Test, settings: Fields = {}): Promise<TestService> {
  const engine = fileURLToPath(new URL('./engine-probe.js', import.meta.url));
  return openWithSettings(t, {
    ...settings,
    defaults: { engine, tokenizer: 'bytes', weights: null },
  });
}
