/**
 * Owns one client of a cluster whose nodes come and go: it repeats each request until it is acknowledged, and knows what was.
 * It must never take a request for done that was not answered.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Random } from '../../src/plugin/test/random-text.js';
import { said } from './chat-client.js';

const KEPT_MAX = 12;
/** For what nobody ever answers: a busy machine takes long for a request, and must not seem to cut it. */
const CALL_MS_MAX = 120_000;
/** Of all tries of one request; a cluster that does not come back must say what it was asked, not run out of the test's time. */
const ACKNOWLEDGED_MS_MAX = 240_000;

export interface ClusterClientOptions {
  readonly name: string;
  readonly key: string;
  readonly url: string;
  readonly random: Random;
  /** After each acknowledged request it rests for less than this. */
  readonly restMsMax: number;
  /** Told of each answer that was none: a status, or `cut` and why. */
  readonly failed: (how: string) => void;
}

export class ClusterClient {
  /** Id → revision. */
  readonly caches = new Map<string, string>();
  /** Id → text. */
  readonly files = new Map<string, string>();
  readonly deleted = new Set<string>();
  acknowledged = 0;
  #made = 0;

  constructor(readonly options: ClusterClientOptions) {}

  async work(isOver: () => boolean): Promise<void> {
    while (!isOver()) {
      await this.#step();
      this.acknowledged += 1;
      const { random, restMsMax } = this.options;
      await delay(random(restMsMax));
    }
  }

  /** @returns what is not as it was acknowledged. */
  async differences(): Promise<string[]> {
    const found: string[] = [];
    for (const [id, revision] of this.caches) {
      const shown = await this.#json('GET', `/v1/caching/${id}`);
      const now = (shown?.metadata as { revision?: string } | undefined)?.revision;
      if (now !== revision) found.push(`${id} has revision ${now}, acknowledged was ${revision}`);
    }
    for (const [id, text] of this.files) {
      const content = await this.#json('GET', `/v1/files/${id}/content`);
      if (content?.content !== text) found.push(`${id} has other bytes than were acknowledged`);
    }
    for (const id of this.deleted) {
      const path = id.startsWith('file') ? `/v1/files/${id}` : `/v1/caching/${id}`;
      if ((await this.#json('GET', path)) !== null) found.push(`${id} was deleted and is there`);
    }
    return found;
  }

  async #step(): Promise<void> {
    const { random } = this.options;
    const roll = random(100);
    if (roll < 15) return await this.#create();
    if (roll < 35) return await this.#update();
    // The text of each is read by a process of its own, which takes more of a machine than ten other requests.
    if (roll < 40) return await this.#upload();
    if (roll < 50) return await this.#remove();
    if (roll < 70) return await this.#chat(true);
    if (roll < 85) return await this.#chat(false);
    await this.#json('GET', '/v1/caching');
  }

  async #create(): Promise<void> {
    const { name } = this.options;
    this.#made += 1;
    const revision = `r${this.#made}`;
    const messages = [{ role: 'system', content: `words of ${name} ${this.#made}` }];
    const body = { model: 'svc-v1', messages, metadata: { revision }, ttl: 3_600 };
    const made = await this.#json('POST', '/v1/caching', body);
    this.caches.set(String(made?.id), revision);
  }

  async #update(): Promise<void> {
    const id = this.#any(this.caches);
    if (id === null) return;
    this.#made += 1;
    const revision = `r${this.#made}`;
    await this.#json('PUT', `/v1/caching/${id}`, { metadata: { revision } });
    this.caches.set(id, revision);
  }

  async #upload(): Promise<void> {
    const { name, random } = this.options;
    this.#made += 1;
    const text = `${name} ${this.#made} ${'words '.repeat(random(2_000))}`.trim();
    const form = () => {
      const fields = new FormData();
      fields.append('file', new Blob([text]), 'note.txt');
      fields.append('purpose', 'file-extract');
      return fields;
    };
    const made = await this.#json('POST', '/v1/files', form);
    this.files.set(String(made?.id), text);
  }

  /** Only once there are many, so that something is left to be compared. */
  async #remove(): Promise<void> {
    const from = this.caches.size >= KEPT_MAX ? this.caches : this.files;
    if (from.size < KEPT_MAX) return;
    const id = this.#any(from) ?? '';
    from.delete(id);
    await this.#json('DELETE', from === this.files ? `/v1/files/${id}` : `/v1/caching/${id}`);
    this.deleted.add(id);
  }

  async #chat(stream: boolean): Promise<void> {
    const body = said(`words of ${this.options.name}`, { stream });
    await this.#until('POST', '/v1/chat/completions', body, async (response) => {
      const text = await response.text();
      return stream ? text.endsWith('data: [DONE]\n\n') : text.includes('"choices"');
    });
  }

  #any(map: ReadonlyMap<string, unknown>): string | null {
    return [...map.keys()][this.options.random(map.size)] ?? null;
  }

  /** Null for a 404. */
  async #json(method: string, path: string, body?: unknown): Promise<Shown | null> {
    let shown: Shown | null = null;
    await this.#until(method, path, body, async (response) => {
      const text = await response.text();
      shown = response.status === 404 ? null : (JSON.parse(text) as Shown);
      return true;
    });
    return shown;
  }

  async #until(
    method: string,
    path: string,
    body: unknown,
    take: (response: Response) => Promise<boolean>,
  ): Promise<void> {
    const sinceMs = performance.now();
    for (;;) {
      const attempt = this.#attempt(method, path, body, take);
      const how = await attempt.catch((cause: Error) => `cut: ${method} ${path} ${saidBy(cause)}`);
      if (how === null) return;
      this.options.failed(how);
      if (performance.now() - sinceMs > ACKNOWLEDGED_MS_MAX)
        throw new Error(`${this.options.name}: never acknowledged, last ${how}`);
      await delay(100);
    }
  }

  /** @returns null when it was answered, else how it failed. */
  async #attempt(
    method: string,
    path: string,
    body: unknown,
    take: (response: Response) => Promise<boolean>,
  ): Promise<string | null> {
    const { url, key } = this.options;
    const isForm = typeof body === 'function';
    const sent = isForm ? (body() as FormData) : body === undefined ? null : JSON.stringify(body);
    const response = await fetch(url + path, {
      method,
      headers: { authorization: `Bearer ${key}` },
      body: sent,
      // A request that a node took which was stopped then is cut by the balancer, or here.
      signal: AbortSignal.timeout(CALL_MS_MAX),
    });
    const { status, headers } = response;
    if (status === 200 || status === 404)
      return (await take(response)) ? null : `cut: ${path} has no end`;
    const text = await response.text();
    if (status === 503 && headers.get('retry-after') !== null) return '503';
    return `${status} to ${method} ${path}: ${text.slice(0, 300)}`;
  }
}

function saidBy({ message, cause }: Error): string {
  return cause instanceof Error ? `${message}: ${cause.message}` : message;
}

interface Shown {
  readonly id?: unknown;
  readonly content?: unknown;
  readonly metadata?: unknown;
}
