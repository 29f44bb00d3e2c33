/**
 * Owns a whole service for a test: its own data folder, a free port, and one key for each of two users.
 * It must never share state with another test, nor outlive the test that opened it.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Test } from 'tap';
import { bringExactness } from '../../bench/support/known-exactness.js';
import { serve } from '../../src/main.js';
import { loadConfig } from '../../src/settings/config.js';

export interface TestService {
  /** Ends in `/v1`. */
  readonly url: string;
  readonly dataDir: string;
  readonly log: readonly string[];
  /** Closes it before the test ends, so that another service can open the same folder. */
  close(): Promise<void>;
  /** `path` begins with a slash and is relative to `url`, or absolute from the root with `root: true`. */
  call(
    method: string,
    path: string,
    body?: unknown,
    headers?: Readonly<Record<string, string>>,
  ): Promise<Response>;
}

export const aliceKey = 'key-of-alice';
export const bobKey = 'key-of-bob';

type Env = Readonly<Record<string, string>>;

/** Runs in this process, on the echo engine unless `env` names another. */
export async function openService(t: Test, env: Env = {}): Promise<TestService> {
  const dataDir = temporaryFolder(t);
  if (env.PREFACE_ENGINE === 'llama') bringExactness(env.PREFACE_DATA_DIR ?? dataDir);
  const log: string[] = [];
  const config = loadConfig({ flags: {}, env: { ...serviceEnv(dataDir), ...env } });
  const service = await serve(config, (line) => log.push(line));
  let closed: Promise<void> | null = null;
  const close = () => {
    closed ??= service.close();
    return closed;
  };
  t.teardown(close);
  return { url: service.url, dataDir, log, close, call: caller(service.url) };
}

export function serviceEnv(dataDir: string): Env {
  return {
    HOME: process.env.HOME ?? '/',
    PREFACE_ENGINE: 'echo',
    PREFACE_PORT: '0',
    PREFACE_DATA_DIR: dataDir,
    PREFACE_API_KEYS: `alice:${aliceKey},bob:${bobKey}`,
  };
}

export function temporaryFolder(t: Pick<Test, 'teardown'>): string {
  const folder = mkdtempSync(join(tmpdir(), 'preface-test-'));
  // Teardowns run in the order of their registration, with the service's own among them.
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

function caller(url: string): TestService['call'] {
  return (method, path, body, headers) =>
    fetch(url + path, {
      method,
      headers: {
        authorization: `Bearer ${aliceKey}`,
        'content-type': 'application/json',
        ...headers,
      },
      ...(body === undefined
        ? {}
        : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    });
}

/** The JSON of every event of a stream, `[DONE]` as a string. */
export async function events(response: Response): Promise<unknown[]> {
  const text = await response.text();
  return text
    .split('\n\n')
    .filter((part) => part !== '')
    .map((part) => {
      if (!part.startsWith('data: ')) throw new Error(`no event: ${part}`);
      const data = part.slice('data: '.length);
      return data === '[DONE]' ? data : (JSON.parse(data) as unknown);
    });
}
