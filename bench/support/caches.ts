/**
 * Owns the caches of the benches: prefixes of a wanted number of tokens, made and waited for over HTTP.
 * It must never make two prefixes that begin alike: the engine would reuse the one for the other.
 */

import { until } from '../../test/support/until.js';
import { MODEL } from './chat.js';
import { prose } from './prose.js';
import { KEY, type Server } from './servers.js';

export const FAMILY = 'svc-v1';
const READY_MS_MAX = 600_000;

export interface ReadyCache {
  readonly id: string;
  readonly tokens: number;
}

/** Texts of one length: the same words after a number of six digits, so that all have the same number of tokens. */
export class Prefix {
  private constructor(readonly words: string) {}

  /** As many words as fit into `tokens`, counted by the service itself. */
  static async ofTokens(server: Server, tokens: number): Promise<Prefix> {
    const words = prose(tokens * 8, 1).split(' ');
    let [low, high] = [1, words.length];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      const prefix = new Prefix(words.slice(0, middle).join(' '));
      if ((await countTokens(server, prefix.messages(FIRST_NUMBER))) > tokens) high = middle - 1;
      else low = middle;
    }
    return new Prefix(words.slice(0, low).join(' '));
  }

  text(number: number): string {
    return `${number} is the number of this text. ${this.words}`;
  }

  messages(number: number): object[] {
    return [{ role: 'system', content: this.text(number) }];
  }

  chat(number: number, question: string, maxTokens: number): object {
    const messages = [...this.messages(number), { role: 'user', content: question }];
    return { model: MODEL, messages, temperature: 0, max_tokens: maxTokens };
  }

  async cache(server: Server, number: number): Promise<ReadyCache> {
    return await readyCache(server, this.messages(number));
  }
}

/** Six digits: with one token per digit, all of them have the same number of tokens. */
export const FIRST_NUMBER = 100_000;

let asked = 0;

/** A new question, whose first word differs from those of the last two dozen. */
export function newQuestion(): string {
  asked += 1;
  const letter = String.fromCharCode(65 + (asked % 26));
  return `${letter} ${FIRST_NUMBER + asked}: what does this text say of it, in a few short words?`;
}

export async function readyCache(server: Server, messages: readonly object[]): Promise<ReadyCache> {
  const { id } = await call<{ id: string }>(server, 'POST', '/v1/caching', {
    model: FAMILY,
    messages,
  });
  return await cacheReady(server, id);
}

export async function cacheReady(server: Server, id: string): Promise<ReadyCache> {
  const ready = async (): Promise<ReadyCache | null> => {
    const { status, tokens, error } = await call<Shown>(server, 'GET', `/v1/caching/${id}`);
    if (status === 'ready') return { id, tokens };
    if (status === 'pending') return null;
    throw new Error(`a cache is ${status}: ${error?.message ?? ''}`);
  };
  return (await until(ready, READY_MS_MAX, `${id} is ready`)) as ReadyCache;
}

interface Shown {
  readonly status: string;
  readonly tokens: number;
  readonly error?: { readonly message: string };
}

async function countTokens(server: Server, messages: readonly object[]): Promise<number> {
  const body = { model: MODEL, messages };
  const path = '/v1/tokenizers/estimate-token-count';
  const { data } = await call<{ data: { total_tokens: number } }>(server, 'POST', path, body);
  return data.total_tokens;
}

/** @throws Error for anything but a 200. */
export async function call<Answer>(
  { port }: Server,
  method: string,
  path: string,
  body?: object,
  key: string = KEY,
): Promise<Answer> {
  const response = await fetch(`http://127.0.0.1:${port}${path}`, {
    method,
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  if (response.status !== 200) throw new Error(`${method} ${path}: ${response.status} ${text}`);
  return JSON.parse(text) as Answer;
}
