/**
 * Owns `preface/client`: caches, tags and the texts of files as typed calls, beside those of the official `openai` package.
 * It must never send anything by itself: requests, retries, keys and errors stay those of that client.
 */
import type OpenAI from 'openai';

import type {
  Cache,
  CacheChange,
  CacheDiff,
  CacheOutcome,
  CacheUse,
  Message,
  NewCache,
  Tag,
} from './types.js';

export type * from './types.js';

const CACHES = '/caching';
const TAGS = `${CACHES}/refs/tags`;
const PAGE = 100;
const LOOK_MS = 200;

export interface CacheClient {
  readonly caches: Caches;
  readonly tags: Tags;
  /** The text of an uploaded document. It waits until the text is extracted. */
  fileText(id: string): Promise<string>;
}

/** @returns the same client, with what `CacheClient` names. */
export function withCaches<Client extends OpenAI>(client: Client): Client & CacheClient {
  return Object.assign(client, {
    caches: new Caches(client),
    tags: new Tags(client),
    fileText: async (id: string) => {
      const { content } = (await (await client.files.content(id)).json()) as { content: string };
      return content;
    },
  });
}

export class Caches {
  constructor(readonly client: OpenAI) {}

  /** @returns it while its prefix is evaluated; see `ready`. */
  create(body: NewCache): Promise<Cache> {
    return this.client.post(CACHES, { body });
  }

  get(id: string): Promise<Cache> {
    return this.client.get(at(CACHES, id));
  }

  /** @throws Error that says why it cannot be made. The signal ends the waiting. */
  async ready(id: string, { signal }: { signal?: AbortSignal } = {}): Promise<Cache> {
    for (;;) {
      signal?.throwIfAborted();
      const cache = await this.get(id);
      if (cache.status === 'error') throw new Error(cache.error?.message ?? 'it cannot be made');
      if (cache.status !== 'pending') return cache;
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    }
  }

  /** The newest first, page by page. */
  list(): AsyncGenerator<Cache> {
    return walk<Cache>(this.client, CACHES, ({ id }) => id);
  }

  /** Where two caches part. */
  diff(id: string, other: string): Promise<CacheDiff> {
    return this.client.get(`${at(CACHES, id)}/diff/${encodeURIComponent(other)}`);
  }

  change(id: string, body: CacheChange): Promise<Cache> {
    return this.client.put(at(CACHES, id), { body });
  }

  async delete(id: string): Promise<void> {
    await this.client.delete(at(CACHES, id));
  }

  /** For the options of a chat whose messages begin with those of the cache. */
  use(id: string, { resetTtl, dryRun }: CacheUse = {}): { headers: Record<string, string> } {
    const headers: Record<string, string> = { 'X-Svc-Context-Cache': id };
    if (resetTtl !== undefined) headers['X-Svc-Context-Cache-Reset-TTL'] = String(resetTtl);
    if (dryRun) headers['X-Svc-Context-Cache-DryRun'] = '1';
    return { headers };
  }

  /** The first message of a chat: the cached messages take its place. @param name `{ tag }` or `{ id }`. */
  message(name: { tag: string } | { id: string }, { resetTtl, dryRun }: CacheUse = {}): Message {
    const parts = [
      'tag' in name ? `tag=${name.tag}` : `cache_id=${name.id}`,
      ...(resetTtl === undefined ? [] : [`reset_ttl=${resetTtl}`]),
      ...(dryRun ? ['dry_run=1'] : []),
    ];
    // OpenAI's types do not know the role.
    return { role: 'cache', content: parts.join(';') } as unknown as Message;
  }

  /** @param response of `.withResponse()`. */
  outcome({ headers }: { readonly headers: Headers }): CacheOutcome {
    const of = (name: string) => headers.get(`Svc-Context-Cache-${name}`);
    return {
      status: of('Status') as CacheOutcome['status'],
      cacheId: of('Id'),
      tokensSaved: Number(of('Token-Saved') ?? 0),
      missReason: of('Miss-Reason'),
    };
  }
}

export class Tags {
  constructor(readonly client: OpenAI) {}

  /** Makes the tag, or moves it. */
  set(tag: string, cacheId: string): Promise<Tag> {
    return this.client.post(TAGS, { body: { tag, cache_id: cacheId } });
  }

  get(tag: string): Promise<Tag> {
    return this.client.get(at(TAGS, tag));
  }

  /** The cache that it leads to. */
  cache(tag: string): Promise<Cache> {
    return this.client.get(`${at(TAGS, tag)}/content`);
  }

  list(): AsyncGenerator<Tag> {
    return walk<Tag>(this.client, TAGS, ({ tag }) => tag);
  }

  async delete(tag: string): Promise<void> {
    await this.client.delete(at(TAGS, tag));
  }
}

function at(path: string, name: string): string {
  return `${path}/${encodeURIComponent(name)}`;
}

async function* walk<Item>(
  client: OpenAI,
  path: string,
  nameOf: (item: Item) => string,
): AsyncGenerator<Item> {
  for (let after: string | undefined; ; ) {
    const query = { limit: PAGE, ...(after === undefined ? {} : { after }) };
    const { data } = await client.get<{ data: Item[] }>(path, { query });
    yield* data;
    const last = data.at(-1);
    if (last === undefined || data.length < PAGE) return;
    after = nameOf(last);
  }
}
