/**
 * Owns the proof of the operator's lists over all users: whole, in order, page by page, and of nobody's texts.
 */
import t, { type Test } from 'tap';
import { refusal } from '../support/chat-client.js';
import { asOperator, operatorOf } from '../support/operator-client.js';
import { aliceKey, bobKey, openService } from '../support/service.js';
import { until } from '../support/until.js';

t.setTimeout(120_000);

const secret = 'what nobody else should read';
const service = await openService(t, asOperator);
const operator = await operatorOf(service);

interface List {
  readonly data: readonly {
    readonly id: string;
    readonly user: string;
    readonly tags?: string[];
  }[];
  readonly has_more: boolean;
  readonly last_id: string;
}

const ask = (path: string, key?: string) => operator.ask('GET', path, undefined, key);

async function told(t: Test, path: string): Promise<List> {
  const value = await operator.told<List>(path);
  t.notMatch(JSON.stringify(value), secret);
  return value;
}

/** In the order in which they were made. */
const caches: string[] = [];
const files: string[] = [];
const turns = [aliceKey, bobKey, aliceKey, bobKey, bobKey, aliceKey];
for (const [i, key] of turns.entries()) {
  const headers = { authorization: `Bearer ${key}` };
  const messages = [{ role: 'system', content: `${secret} ${i} `.repeat(20) }];
  const body = { model: 'svc-v1', messages, tags: [`tag-${'abcdef'[i]}`] };
  const made = await service.call('POST', '/caching', body, headers);
  caches.push(((await made.json()) as { id: string }).id);
  const form = new FormData();
  form.set('purpose', 'file-extract');
  form.set('file', new Blob([`${secret} ${i}`]), `file-${i}.txt`);
  const uploaded = await fetch(`${service.url}/files`, { method: 'POST', headers, body: form });
  files.push(((await uploaded.json()) as { id: string }).id);
}
const isAlice = (at: number) => turns[at] === aliceKey;

for (const [name, made] of [
  ['caches', caches],
  ['files', files],
] as const) {
  t.test(`${name} of all users, the newest first`, async (t) => {
    const path = `/admin/v1/${name}`;
    const all = await told(t, path);
    // Those of one second are in the order of their ids.
    t.same(all.data.map(({ id }) => id).sort(), [...made].sort());
    for (const { id, user } of all.data)
      t.equal(user, isAlice(made.indexOf(id)) ? 'alice' : 'bob', id);
    const paged: string[] = [];
    for (let after = ''; ; ) {
      const page = await told(t, `${path}?limit=4${after}`);
      paged.push(...page.data.map(({ id }) => id));
      if (!page.has_more) break;
      after = `&after=${page.last_id}`;
    }
    t.same(
      paged,
      all.data.map(({ id }) => id),
      'page by page',
    );
    const rising = await told(t, `${path}?order=asc`);
    t.same(rising.data.map(({ id }) => id).reverse(), paged);
    t.match(await refusal(t, await ask(`${path}?after=none`)), { status: 400, param: 'after' });
    t.match(await refusal(t, await ask(`${path}?user=bob`)), { status: 400, param: 'user' });
    t.match(await refusal(t, await ask(path, aliceKey)), { status: 401 });
  });
}

t.test('each cache has the tags of its user', async (t) => {
  const { data } = await told(t, '/admin/v1/caches');
  for (const { id, tags } of data) t.same(tags, [`tag-${'abcdef'[caches.indexOf(id)]}`]);
});

t.test('advice tells whose prompts part', async (t) => {
  const headers = { authorization: `Bearer ${bobKey}` };
  for (let minute = 1; minute < 5; minute += 1) {
    const rules = 'You answer from this handbook. '.repeat(20);
    const messages = [{ role: 'system', content: `It is 14:0${minute}:31.\n${rules}` }];
    const body = { model: 'svc-v1-8k', messages: [...messages, { role: 'user', content: 'Hi' }] };
    await (await service.call('POST', '/chat/completions', body, headers)).text();
  }
  await until(async () => (await told(t, '/admin/v1/advice')).data.length > 0);
  const { data } = await told(t, '/admin/v1/advice');
  t.match(data[0], { user: 'bob', model: 'svc-v1-8k' });
  t.match(await refusal(t, await ask('/admin/v1/advice', bobKey)), { status: 401 });
});
