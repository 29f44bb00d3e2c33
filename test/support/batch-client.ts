/**
 * Owns the steps that black-box tests of batches share: the upload, the creation, the wait for a status.
 * It must never accept an answer that a client would not.
 */
import type { WireBatch } from '../../src/protocol/batches.js';
import type { Fields } from './chat-client.js';
import { aliceKey } from './service.js';
import { until } from './until.js';

export interface Place {
  /** Ends in `/v1`. */
  readonly url: string;
}

export interface ResultLine {
  readonly custom_id: string;
  readonly response: { readonly status_code: number; readonly body: Fields } | null;
  readonly error: { readonly code: string } | null;
}

const bearer = (key: string) => ({ authorization: `Bearer ${key}` });

export async function call(
  { url }: Place,
  method: string,
  path: string,
  body?: unknown,
  key = aliceKey,
): Promise<Response> {
  return await fetch(url + path, {
    method,
    headers: { ...bearer(key), 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
}

export function line(customId: string, body: unknown, url = '/v1/chat/completions'): Fields {
  return { custom_id: customId, method: 'POST', url, body };
}

/** @returns the id of the file. */
export async function upload({ url }: Place, lines: readonly (Fields | string)[]): Promise<string> {
  const form = new FormData();
  const texts = lines.map((each) => (typeof each === 'string' ? each : JSON.stringify(each)));
  form.set('purpose', 'batch');
  form.set('file', new Blob([`${texts.join('\n')}\n`]), 'requests.jsonl');
  const response = await fetch(`${url}/files`, {
    method: 'POST',
    headers: bearer(aliceKey),
    body: form,
  });
  if (response.status !== 200) throw new Error(`${response.status}: ${await response.text()}`);
  return ((await response.json()) as { id: string }).id;
}

export async function created(
  place: Place,
  lines: readonly (Fields | string)[],
  fields: Fields = {},
): Promise<WireBatch> {
  const input = await upload(place, lines);
  const endpoint = '/v1/chat/completions';
  const asked = { input_file_id: input, endpoint, completion_window: '24h', ...fields };
  const response = await call(place, 'POST', '/batches', asked);
  if (response.status !== 200) throw new Error(`${response.status}: ${await response.text()}`);
  return (await response.json()) as WireBatch;
}

export async function lookAt(place: Place, id: string): Promise<WireBatch> {
  return (await (await call(place, 'GET', `/batches/${id}`)).json()) as WireBatch;
}

/** @throws Error when it does not come to that. */
export async function untilBatch(
  place: Place,
  id: string,
  holds: (batch: WireBatch) => boolean,
): Promise<WireBatch> {
  const found = await until(
    async () => {
      const batch = await lookAt(place, id);
      return holds(batch) ? batch : null;
    },
    BOUND_MS,
    `batch ${id}: ${String(holds)}`,
  );
  return found as WireBatch;
}

const BOUND_MS = 120_000;

export function untilStatus(place: Place, id: string, status: string): Promise<WireBatch> {
  return untilBatch(place, id, (batch) => batch.status === status);
}

/** None where there is no file. */
export async function resultsIn(place: Place, fileId: string | null): Promise<ResultLine[]> {
  if (fileId === null) return [];
  const response = await call(place, 'GET', `/files/${fileId}/content`);
  const text = (await response.text()).trim();
  return text.split('\n').map((each) => JSON.parse(each) as ResultLine);
}
