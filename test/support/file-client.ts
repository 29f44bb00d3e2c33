/**
 * Owns the steps that black-box tests of files share: upload a file, read its content, list files.
 * It must never know more of a file than its answers show.
 */
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Test } from 'tap';
import type { fileListSchema, WireFile } from '../../src/protocol/files.js';
import type { Static } from '../../src/protocol/schema.js';
import { type Fields, openWithSettings, type Refusal, refusal } from './chat-client.js';
import { aliceKey, type TestService } from './service.js';

export type Headers = Readonly<Record<string, string>>;

export interface Content {
  readonly content: string;
  readonly file_type: string;
  readonly filename: string;
  readonly title: string;
  readonly type: string;
}

/** A part of a form: a field, or a file with its name. */
export type Part = readonly [name: string, value: string | Uint8Array, filename?: string];

export const purpose: Part = ['purpose', 'file-extract'];

export function form(parts: readonly Part[]): FormData {
  const data = new FormData();
  for (const [name, value, filename] of parts) {
    if (filename === undefined) data.append(name, String(value));
    else data.append(name, new Blob([Buffer.from(value)]), filename);
  }
  return data;
}

export function send(
  service: Pick<TestService, 'url'>,
  body: FormData | ReadableStream | Uint8Array,
  headers: Headers = {},
): Promise<Response> {
  return fetch(`${service.url}/files`, {
    method: 'POST',
    headers: { authorization: `Bearer ${aliceKey}`, ...headers },
    body,
    ...(body instanceof ReadableStream ? { duplex: 'half' } : {}),
  } as RequestInit);
}

export async function upload(
  service: Pick<TestService, 'url'>,
  bytes: string | Uint8Array,
  filename = 'a.txt',
  headers: Headers = {},
): Promise<WireFile> {
  const response = await send(service, form([purpose, ['file', bytes, filename]]), headers);
  if (response.status !== 200) throw new Error(`${response.status}: ${await response.text()}`);
  return (await response.json()) as WireFile;
}

export async function refusedUpload(
  t: Test,
  service: TestService,
  parts: readonly Part[],
): Promise<Refusal> {
  return await refusal(t, await send(service, form(parts)));
}

export async function contentOf(
  service: TestService,
  id: string,
  headers: Headers = {},
): Promise<Content> {
  const response = await service.call('GET', `/files/${id}/content`, undefined, headers);
  const text = await response.text();
  if (response.status !== 200) throw new Error(`${response.status}: ${text}`);
  return JSON.parse(text) as Content;
}

export async function listed(
  service: TestService,
  query = '',
  headers: Headers = {},
): Promise<Static<typeof fileListSchema>> {
  const response = await service.call('GET', `/files${query}`, undefined, headers);
  if (response.status !== 200) throw new Error(`${response.status}: ${await response.text()}`);
  return (await response.json()) as Static<typeof fileListSchema>;
}

/** Names in the folder of the blobs. */
export function blobs({ dataDir }: Pick<TestService, 'dataDir'>): string[] {
  return readdirSync(join(dataDir, 'files')).sort();
}

/** A service that reads documents when the test lets it: see `extractor-gated.ts`. */
export function openGatedFiles(t: Test, settings: Fields = {}): Promise<TestService> {
  return openWithSettings(t, settings, gatedEnv);
}

const adminKey = 'admin-key-of-gated-files';
export const gatedEnv = {
  PREFACE_EXTRACTORS: fileURLToPath(new URL('./extractor-gated.js', import.meta.url)),
  PREFACE_ADMIN_KEY: adminKey,
};

/** A file that opens the gate once it is there: beside the extractor, since its reader sees no other folder. */
export function gateFile(t: Test): string {
  const gates = fileURLToPath(new URL('./gates/', import.meta.url));
  mkdirSync(gates, { recursive: true });
  const folder = mkdtempSync(gates);
  // Its reader may be another user.
  chmodSync(folder, 0o755);
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  return join(folder, 'gate');
}

/** Documents that are being read now. */
export async function extractionsReading(url: string): Promise<number> {
  const headers = { authorization: `Bearer ${adminKey}` };
  const response = await fetch(new URL('/admin/v1/status', url), { headers });
  const { extractions } = (await response.json()) as { extractions: { reading: number } };
  return extractions.reading;
}

/** Documents that were read, whatever came of it. */
export async function extractionsDone(url: string): Promise<number> {
  const text = await (await fetch(new URL('/metrics', url))).text();
  const samples = text.matchAll(/^preface_extractions_total\{[^}]*\} (\d+)$/gm);
  return [...samples].reduce((sum, [, count]) => sum + Number(count), 0);
}
