/**
 * Owns the steps that black-box tests of the Messages API share: a request, its answer, its events.
 * It must never know more of an answer than a client of that API reads.
 */
import { model } from './chat-client.js';
import { aliceKey, type TestService } from './service.js';

export type Fields = Readonly<Record<string, unknown>>;

export interface Message {
  readonly id: string;
  readonly content: readonly { readonly type: string; readonly text?: string }[];
  readonly stop_reason: string;
  readonly stop_sequence: string | null;
  readonly usage: {
    readonly input_tokens: number;
    readonly cache_creation_input_tokens: number;
    readonly cache_read_input_tokens: number;
    readonly cache_creation: Fields;
    readonly output_tokens: number;
  };
  readonly diagnostics: {
    readonly cache_miss_reason: { readonly type: string; readonly message: string };
  } | null;
}

export const kept = { type: 'ephemeral' } as const;

export function block(text: string, more: Fields = {}): Fields {
  return { type: 'text', text, ...more };
}

/** The key goes where these clients put it. */
export function sendTo(
  service: TestService,
  path: string,
  fields: Fields,
  headers: Readonly<Record<string, string>> = {},
): Promise<Response> {
  return fetch(`${service.url}${path}`, {
    method: 'POST',
    headers: {
      'x-api-key': aliceKey,
      'anthropic-version': '2023-06-01',
      'content-type': 'application/json',
      ...headers,
    },
    body: JSON.stringify({ model, messages: [{ role: 'user', content: 'Hi' }], ...fields }),
  });
}

export function send(service: TestService, fields: Fields = {}): Promise<Response> {
  return sendTo(service, '/messages', { max_tokens: 100, ...fields });
}

export async function messageOf(service: TestService, fields: Fields = {}): Promise<Message> {
  const response = await send(service, fields);
  if (response.status !== 200) throw new Error(`${response.status}: ${await response.text()}`);
  return (await response.json()) as Message;
}

/** Data of each event, whose name must be its type. */
export async function streamOf(service: TestService, fields: Fields = {}): Promise<Fields[]> {
  const response = await send(service, { ...fields, stream: true });
  const text = await response.text();
  if (response.headers.get('content-type') !== 'text/event-stream') throw new Error(text);
  const frames = text.split('\n\n').filter((frame) => frame !== '');
  return frames.map((frame) => {
    const [, name, data = ''] = /^event: (\w+)\ndata: (.*)$/.exec(frame) ?? [];
    const event = JSON.parse(data) as Fields;
    if (event.type !== name) throw new Error(`no event: ${frame}`);
    return event;
  });
}
