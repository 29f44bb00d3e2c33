/** Owns the proof of the whole way of a document: a real PDF goes in, its text into a cache, and the real model is asked about it. */
import { readFileSync } from 'node:fs';
import t from 'tap';
import { ask, askWith, readyCache } from '../support/cache-client.js';
import { contentOf, upload } from '../support/file-client.js';
import { openService } from '../support/service.js';
import { skipWithoutWeights } from '../support/weights.js';

t.setTimeout(600_000);

t.test('a PDF is asked about, from a cache', { skip: skipWithoutWeights }, async (t) => {
  const service = await openService(t, { PREFACE_ENGINE: 'llama', PREFACE_THREADS: '1,1' });
  const pdf = readFileSync(new URL('../../../test/documents/text.pdf', import.meta.url));
  const note = 'Note: the light of the harbour is kept by a woman called Ingrid.';
  const files = [await upload(service, pdf, 'text.pdf'), await upload(service, note, 'note.txt')];
  const texts: string[] = [];
  for (const { id } of files) {
    t.match(await contentOf(service, id), { type: 'file' });
    texts.push(await (await service.call('GET', `/files/${id}/content`)).text());
  }
  t.match(texts[0], 'consectetur adipisici elit');

  const prefix = [{ role: 'system', content: texts.join('\n') }];
  const cache = await readyCache(service, { messages: prefix });
  t.ok(cache.tokens > 100, `${cache.tokens} tokens`);
  const question = { role: 'user', content: 'Who keeps the light of the harbour?' };
  const hit = await askWith(service, cache.id, [...prefix, question], { max_tokens: 24 });
  t.match(hit.cache, { status: 'hit', id: cache.id, 'token-saved': String(cache.tokens) });
  const [usage] = hit.usage;
  t.match(usage, { cached_tokens: cache.tokens });
  t.ok((usage?.prompt_tokens ?? 0) > cache.tokens, 'the question was evaluated');
  t.match(hit.text, /Ingrid/, 'the answer comes from the file');

  const named = [{ role: 'cache', content: `cache_id=${cache.id}` }, question];
  const byMessage = await ask(service, named, {}, { max_tokens: 24 });
  t.match(byMessage, { cache: { status: 'hit' }, text: hit.text }, 'in both modes');
  const separate = texts.map((content) => ({ role: 'system', content }));
  const apart = await ask(service, [...separate, question], {}, { max_tokens: 8 });
  t.equal(apart.status, 200, 'or one message a file');
});
