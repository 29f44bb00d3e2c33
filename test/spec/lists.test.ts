/**
 * Owns the proof of what all lists have in common: their order, cursors that outlive their items, filters that are none.
 * It must see caches, files and tags only as a client does.
 */
import t, { type Test } from 'tap';
import { asBob } from '../support/cache-client.js';
import { form, type Headers, purpose, send } from '../support/file-client.js';
import { askOperator, asOperator } from '../support/operator-client.js';
import { openService, type TestService } from '../support/service.js';

t.setTimeout(120_000);

interface Item {
  readonly id?: string;
  readonly tag?: string;
}

interface Kind {
  readonly name: string;
  readonly path: string;
  /** @returns what a cursor names. */
  make(service: TestService, number: number, headers?: Headers): Promise<string>;
}

const messages = [{ role: 'user', content: 'Hello' }];

async function made(response: Promise<Response>): Promise<string> {
  const answer = await response;
  if (answer.status !== 200) throw new Error(await answer.text());
  const { id, tag } = (await answer.json()) as Item;
  return tag ?? id ?? '';
}

const caches: Kind = {
  name: 'caches',
  path: '/caching',
  make: (service, _number, headers) =>
    made(service.call('POST', '/caching', { model: 'svc-v1', messages }, headers)),
};

const files: Kind = {
  name: 'files',
  path: '/files',
  make: (service, number, headers) =>
    made(send(service, form([purpose, ['file', `file ${number}`, 'a.txt']]), headers)),
};

const tags: Kind = {
  name: 'tags',
  path: '/caching/refs/tags',
  make: async (service, number, headers) => {
    const cache_id = await caches.make(service, 0, headers);
    // Neither their names nor their times tell the order.
    const tag = `t${String.fromCharCode(97 + ((number * 7) % 26))}${'x'.repeat(number)}`;
    return await made(service.call('POST', '/caching/refs/tags', { tag, cache_id }, headers));
  },
};

async function names(
  service: TestService,
  { path }: Kind,
  query: string,
  headers: Headers = {},
): Promise<string[]> {
  const response = await service.call('GET', `${path}?${query}`, undefined, headers);
  if (response.status !== 200) throw new Error(`${response.status}: ${await response.text()}`);
  const { data } = (await response.json()) as { data: Item[] };
  return data.map(({ id, tag }) => tag ?? id ?? '');
}

async function remove(service: TestService, { path }: Kind, name: string): Promise<void> {
  const { status } = await service.call('DELETE', `${path}/${name}`);
  if (status !== 200) throw new Error(`${name} was not deleted: ${status}`);
}

async function makeMany(service: TestService, kind: Kind, count: number): Promise<string[]> {
  const all: string[] = [];
  for (let number = 0; number < count; number += 1) all.push(await kind.make(service, number));
  return all;
}

for (const kind of [caches, files, tags]) {
  t.test(kind.name, async (t) => {
    const service = await openService(t);
    const all = await makeMany(service, kind, 14);

    await t.test('stand in the order of creation, also within one second', async (t) => {
      t.strictSame(await names(service, kind, 'order=asc'), all);
      t.strictSame(await names(service, kind, ''), [...all].reverse());
    });

    await t.test('are all deleted by who pages and deletes what came', async (t) => {
      for (const order of ['asc', 'desc'] as const) await deletesAll(t, service, kind, order);
    });

    await t.test('an id that never was the owner’s is no cursor', async (t) => {
      const theirs = await kind.make(service, 20, asBob);
      const response = await service.call('DELETE', `${kind.path}/${theirs}`, undefined, asBob);
      t.equal(response.status, 200);
      for (const name of [theirs, `${theirs.slice(0, -1)}-`, 'cache-', 'x'.repeat(24)]) {
        for (const bound of ['after', 'before']) {
          const { status } = await service.call('GET', `${kind.path}?${bound}=${name}`);
          t.equal(status, 400, `${bound}=${name}`);
        }
      }
    });

    await t.test('a filter that is none is refused, and what is no filter is not', (t) =>
      refusesFilters(t, service, kind),
    );
  });
}

async function deletesAll(
  t: Test,
  service: TestService,
  kind: Kind,
  order: 'asc' | 'desc',
): Promise<void> {
  const all = await names(service, kind, `order=asc&limit=100`);
  const left = all.length > 0 ? all : await makeMany(service, kind, 14);
  const deleted: string[] = [];
  let page = await names(service, kind, `limit=4&order=${order}`);
  while (page.length > 0) {
    for (const name of page) await remove(service, kind, name);
    deleted.push(...page);
    const last = page.at(-1) ?? '';
    const first = page[0] ?? '';
    t.strictSame(await names(service, kind, `before=${first}&order=${order}`), [], 'all before');
    page = await names(service, kind, `limit=4&order=${order}&after=${last}`);
  }
  t.strictSame(deleted, order === 'asc' ? left : [...left].reverse());
  t.strictSame(await names(service, kind, ''), []);
}

async function refusesFilters(t: Test, service: TestService, kind: Kind): Promise<void> {
  const bad = ['metadata=v', 'metadata[k=v', 'metadatak]=v', 'Metadata[k]=v', 'metadata.k=v'];
  bad.push('filter=x', 'status=ready', 'name=x', 'id=x', 'created_at=5', 'a[b]=c', 'q=x');
  if (kind !== caches) bad.push('metadata[k]=v');
  for (const query of bad) {
    const response = await service.call('GET', `${kind.path}?${query}`);
    t.equal(response.status, 400, query);
    const { error } = (await response.json()) as { error: { message: string; param: string } };
    t.equal(error.param, query.split('=')[0], query);
    t.match(error.message, /is no filter of this list, got '/, query);
  }
  for (const query of ['api-version=3', '_=17', 'unknown=1']) {
    t.equal((await service.call('GET', `${kind.path}?${query}`)).status, 200, query);
  }
}

interface Described {
  readonly $ref?: string;
  readonly properties?: Readonly<Record<string, Described>>;
  readonly items?: Described;
  readonly content?: Readonly<Record<string, { readonly schema: Described }>>;
}

interface Operation {
  readonly parameters?: readonly { readonly name: string }[];
  readonly responses: Readonly<Record<string, Described>>;
}

interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, Described>> };
}

/** By the path of each list with pages: the fields of what it lists, and what it can be asked for. */
function listsOf({ paths, components }: Document) {
  const found = ({ $ref, ...rest }: Described = {}) =>
    $ref === undefined ? rest : (components.schemas[$ref.split('/').at(-1) ?? ''] ?? {});
  return Object.entries(paths).flatMap(([path, { get }]) => {
    const asked = (get?.parameters ?? []).map(({ name }) => name);
    if (!asked.includes('after')) return [];
    const list = found(get?.responses['200']?.content?.['application/json']?.schema);
    const item = found(list.properties?.data?.items);
    return [{ path, asked, fields: Object.keys(item.properties ?? {}) }];
  });
}

/** Fields that the document does not show, or of what was asked for. */
const furtherFields: Readonly<Record<string, readonly string[]>> = {
  '/v1/caching': ['base', 'pin', 'snapshot', 'promoted', 'cache_control', 'snapshot.pinned'],
  '/v1/batches': ['endpoint', 'input_file_id', 'state'],
  '/v1/conversations/{id}/items': ['role', 'content', 'call_id', 'Role'],
  '/v1/responses/{id}/input_items': ['type', 'role'],
  '/admin/v1/users': ['state'],
};

t.test('no list ignores the name of a field of what it lists', async (t) => {
  const service = await openService(t, asOperator);
  const described = await fetch(new URL('/openapi.json', service.url));
  const lists = listsOf((await described.json()) as Document);
  t.ok(lists.length > 10, `${lists.length} lists`);
  const paths = lists.map(({ path }) => path);
  for (const path of Object.keys(furtherFields)) t.ok(paths.includes(path), path);
  const conversation = await made(service.call('POST', '/conversations', {}));
  const response = await made(
    service.call('POST', '/responses', { model: 'svc-v1-8k', input: 'Hi' }),
  );
  for (const { path, asked, fields } of lists) {
    const id = path.includes('conversations') ? conversation : response;
    const place = path.replace('{user}', 'alice').replace('{id}', id);
    const call = (query: string) =>
      path.startsWith('/admin')
        ? askOperator(service, 'GET', `${place}?${query}`)
        : service.call('GET', `${place.replace('/v1', '')}?${query}`);
    t.ok(fields.length > 1, path);
    for (const field of [...fields, ...(furtherFields[path] ?? [])]) {
      if (asked.includes(field)) continue;
      const answer = await call(`${field}=x`);
      const { error } = (await answer.json()) as { error?: { param: string; message: string } };
      t.equal(answer.status, 400, `${path}?${field}=x`);
      t.equal(error?.param, field);
      t.match(error?.message, /is no filter of this list, got 'x'/);
    }
    t.equal((await call('api-version=3&_=17')).status, 200, path);
  }
});

t.test('a tag that is deleted and made again is where it is now', async (t) => {
  const service = await openService(t);
  const all = await makeMany(service, tags, 3);
  const [first = ''] = all;
  await remove(service, tags, first);
  t.strictSame(await names(service, tags, `order=asc&after=${first}`), all.slice(1));
  await tags.make(service, 0);
  t.strictSame(await names(service, tags, 'order=asc'), [...all.slice(1), first]);
  t.strictSame(await names(service, tags, `order=asc&after=${first}`), []);
});
