/**
 * Owns the steps that black-box tests of completions share.
 * It must never accept an answer that a client would not.
 */
import type {
  completionsChunkSchema,
  completionsSchema,
} from '../../src/protocol/completions-answer.js';
import type { Static } from '../../src/protocol/schema.js';
import { type Fields, model } from './chat-client.js';
import { events, type TestService } from './service.js';

export type Completion = Static<typeof completionsSchema>;
export type CompletionChunk = Static<typeof completionsChunkSchema>;

export function ask(service: Pick<TestService, 'call'>, fields: Fields): Promise<Response> {
  return service.call('POST', '/completions', { model, ...fields });
}

export async function completed(
  service: Pick<TestService, 'call'>,
  fields: Fields,
): Promise<Completion> {
  const response = await ask(service, fields);
  if (response.status !== 200) throw new Error(`${response.status}: ${await response.text()}`);
  return (await response.json()) as Completion;
}

export async function streamed(
  service: Pick<TestService, 'call'>,
  fields: Fields,
): Promise<CompletionChunk[]> {
  const response = await ask(service, { ...fields, stream: true });
  if (response.status !== 200) throw new Error(`${response.status}: ${await response.text()}`);
  const all = await events(response);
  if (all.at(-1) !== '[DONE]') throw new Error(`ends with ${JSON.stringify(all.at(-1))}`);
  return all.slice(0, -1) as CompletionChunk[];
}

export function textsOf({ choices }: Completion): string[] {
  return choices.map(({ text }) => text);
}
