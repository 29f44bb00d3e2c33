/**
 * Owns the proof that `preface/client` does over the official package what the API says, with its oldest and newest version.
 * It must never look behind the API.
 */
import OpenAI from 'openai';
import OpenAI4 from 'openai4';
import t from 'tap';
import { withCaches } from '../../src/client/index.js';
import { aliceKey, openService } from '../support/service.js';

const service = await openService(t);
const options = { apiKey: aliceKey, baseURL: service.url };
const model = 'svc-v1-8k';
const handbook = { role: 'system', content: 'The harbour opens at six. '.repeat(20) } as const;
const question = { role: 'user', content: 'When does it open?' } as const;
const clients = {
  newest: new OpenAI(options),
  // Its types are other ones, its calls are the same.
  'version 4': new OpenAI4(options) as unknown as OpenAI,
};

for (const [version, official] of Object.entries(clients)) {
  const client = withCaches(official);
  t.test(`a cache and its tag, with the ${version}`, async (t) => {
    const made = await client.caches.create({
      model: 'svc-v1',
      messages: [handbook],
      ttl: 600,
      tags: ['handbook'],
    });
    t.match(await client.caches.ready(made.id), { id: made.id, status: 'ready', model: 'svc-v1' });
    const use = client.caches.use(made.id, { resetTtl: 60 });
    const chat = client.chat.completions.create({ model, messages: [handbook, question] }, use);
    const { data, response } = await chat.withResponse();
    const outcome = client.caches.outcome(response);
    t.match(outcome, { status: 'hit', cacheId: made.id, missReason: null });
    t.ok(outcome.tokensSaved > 500, `${outcome.tokensSaved}`);
    t.equal(data.choices[0]?.message.content, question.content);

    const named = client.caches.message({ tag: 'handbook' }, { resetTtl: 60 });
    const byTag = await client.chat.completions.create({ model, messages: [named, question] });
    t.equal(byTag.usage?.prompt_tokens, data.usage?.prompt_tokens);
    const dry = client.caches.use(made.id, { dryRun: true });
    const other = client.chat.completions.create({ model, messages: [question] }, dry);
    t.match(client.caches.outcome((await other.withResponse()).response), {
      status: 'miss',
      missReason: /^messages\[0\]/,
    });

    t.match(await client.caches.change(made.id, { metadata: { shelf: 'b' } }), {
      metadata: { shelf: 'b' },
    });
    t.match(await client.tags.set('second', made.id), { tag: 'second', cache_id: made.id });
    t.match(await client.tags.get('second'), { cache_id: made.id });
    t.match(await client.tags.cache('second'), { id: made.id });
    const tags: string[] = [];
    for await (const { tag } of client.tags.list()) tags.push(tag);
    t.same(tags.sort(), ['handbook', 'second']);
    await client.tags.delete('second');
    const derived = await client.caches.create({
      base: 'handbook',
      messages: [question],
      ttl: 600,
    });
    t.match(await client.caches.ready(derived.id), { base: made.id, status: 'ready' });
    const diff = await client.caches.diff(made.id, derived.id);
    t.match(diff, { shared_messages: 1, difference: null, message: 1, character: null });
    t.match(
      [diff.a, diff.b],
      [
        { id: made.id, messages: 1 },
        { id: derived.id, messages: 2 },
      ],
    );
    t.match(await client.caches.change(derived.id, { pin: true }), { pin: true });
    await client.caches.delete(derived.id);
    await client.caches.delete(made.id);
    await t.rejects(client.caches.get(made.id), { message: /^404 / });
  });

  t.test(`lists of more than a page, with the ${version}`, async (t) => {
    const ids = new Set<string>();
    for (let count = 0; count < 103; count += 1) {
      const messages = [{ role: 'user' as const, content: `${count}` }];
      ids.add((await client.caches.create({ model: 'svc-v1', messages, ttl: 600 })).id);
    }
    const listed: string[] = [];
    for await (const { id } of client.caches.list()) listed.push(id);
    t.same(new Set(listed), ids);
    t.equal(listed.length, ids.size);
    for (const id of ids) await client.caches.delete(id);
  });

  t.test(`the text of a file, with the ${version}`, async (t) => {
    const file = new File(['Hello there'], 'a.txt');
    // The purpose is the contract's own.
    const purpose = 'file-extract' as 'assistants';
    const { id } = await client.files.create({ file, purpose });
    t.match(await client.fileText(id), 'Hello there');
  });
}

t.test('waiting ends with its signal', async (t) => {
  const client = withCaches(clients.newest);
  const signal = AbortSignal.abort(new Error('enough'));
  await t.rejects(client.caches.ready('cache-00000000000000000000', { signal }), /enough/);
});
