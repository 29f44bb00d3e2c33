/**
 * Owns the steps that black-box tests of the Responses API share: a request, its response, its events.
 * It must never know more of a response than a client of that API reads.
 */
import { model } from './chat-client.js';
import { aliceKey, type TestService } from './service.js';

export type Fields = Readonly<Record<string, unknown>>;

export interface Item {
  readonly id: string;
  readonly type: string;
  readonly status?: string;
  readonly role?: string;
  readonly content?: readonly Fields[];
  readonly name?: string;
  readonly call_id?: string;
  readonly arguments?: string;
}

export interface ResponseShown {
  readonly id: string;
  readonly status: string;
  readonly output: readonly Item[];
  readonly error: Fields | null;
  readonly incomplete_details: Fields | null;
  readonly usage: {
    readonly input_tokens: number;
    readonly output_tokens: number;
    readonly input_tokens_details: {
      readonly cached_tokens: number;
      readonly cache_write_tokens: number;
    };
    readonly output_tokens_details: { readonly reasoning_tokens: number };
  };
  readonly [field: string]: unknown;
}

export interface Event extends Fields {
  readonly type: string;
  readonly sequence_number: number;
}

export function send(service: TestService, fields: Fields = {}, key = aliceKey): Promise<Response> {
  const body = { model, input: 'Hi', ...fields };
  return service.call('POST', '/responses', body, { authorization: `Bearer ${key}` });
}

export async function responseOf(
  service: TestService,
  fields: Fields = {},
): Promise<ResponseShown> {
  return await read(await send(service, fields));
}

export async function read<Value = ResponseShown>(response: Response): Promise<Value> {
  if (response.status !== 200) throw new Error(`${response.status}: ${await response.text()}`);
  return (await response.json()) as Value;
}

export function textOf({ output }: ResponseShown): string {
  return output
    .filter(({ type }) => type === 'message')
    .flatMap(({ content }) => content ?? [])
    .map(({ text }) => text)
    .join('');
}

/** The events, whose names must be their types and whose numbers must follow each other. */
export async function streamOf(service: TestService, fields: Fields = {}): Promise<Event[]> {
  return await eventsOf(await send(service, { ...fields, stream: true }));
}

export async function eventsOf(response: Response, first = 0): Promise<Event[]> {
  const text = await response.text();
  if (response.headers.get('content-type') !== 'text/event-stream') throw new Error(text);
  const frames = text.split('\n\n').filter((frame) => frame !== '');
  return frames.map((frame, at) => {
    const [, name, data = ''] = /^event: ([\w.]+)\ndata: (.*)$/.exec(frame) ?? [];
    const event = JSON.parse(data) as Event;
    if (event.type !== name) throw new Error(`no event: ${frame}`);
    if (event.sequence_number !== first + at) throw new Error(`not number ${first + at}: ${frame}`);
    return event;
  });
}
