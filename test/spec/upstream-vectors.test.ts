/** Embeddings and rankings of upstreams: passed through, under the ids of each side, with the usage that the upstream tells. */
import t from 'tap';
import { type Fields, openWithSettings, refusal } from '../support/chat-client.js';
import { FakeUpstream, says } from '../support/fake-upstream.js';
import { aliceKey, type TestService } from '../support/service.js';
import { echoModels, embeddings, ranked, vectorsOf } from '../support/vector-client.js';

const remote = (kind: string, url: string, model: string, apiKey = 'key-of-upstream') => ({
  engine: 'openai',
  kind,
  window: 512,
  upstreams: [{ url, apiKey, model }],
});

function openFront(url: string): Promise<TestService> {
  return openWithSettings(t, {
    models: {
      vectors: remote('embedding', url, 'their-embedder'),
      ranks: remote('rerank', url, 'their-ranker'),
    },
  });
}

t.test('a service before a service gives the same vectors, scores and usage', async (t) => {
  const behind = await openWithSettings(t, { models: echoModels });
  const front = await openWithSettings(t, {
    models: {
      vectors: remote('embedding', behind.url, 'embedder', aliceKey),
      ranks: remote('rerank', behind.url, 'ranker', aliceKey),
    },
  });
  const input = Array.from({ length: 150 }, (_, at) => `crane ${at} at the quay`);
  for (const more of [{}, { encoding_format: 'base64' }, { dimensions: 16 }]) {
    const mine = await embeddings(front, { model: 'vectors', input, ...more });
    const theirs = await embeddings(behind, { model: 'embedder', input, ...more });
    t.same(mine.data, theirs.data);
    t.same(mine.usage, theirs.usage);
    t.equal(mine.model, 'vectors');
  }
  const ids = [[...Buffer.from('a quay')]];
  t.same(
    vectorsOf(await embeddings(front, { model: 'vectors', input: ids })),
    vectorsOf(await embeddings(behind, { model: 'embedder', input: ids })),
  );
  const ask = { query: 'crane 7', documents: input, top_n: 5, return_documents: true };
  const mine = await ranked(front, { model: 'ranks', ...ask });
  const theirs = await ranked(behind, { model: 'ranker', ...ask });
  t.same(mine.results, theirs.results);
  t.same(mine.usage, theirs.usage);
  const list = (await (await front.call('GET', '/models')).json()) as { data: Fields[] };
  t.match(list.data, [
    { id: 'vectors', kind: 'embedding' },
    { id: 'ranks', kind: 'rerank' },
  ]);
  const long = { model: 'vectors', input: 'x'.repeat(600) };
  const found = await refusal(t, await front.call('POST', '/embeddings', long));
  t.equal(found.status, 400);
  t.match(found.message, /the upstream refuses the request: .*600 tokens/);
});

t.test('what an upstream gets and gives, in whatever order and form', async (t) => {
  const fake = await FakeUpstream.open(t);
  const front = await openFront(fake.url);
  const data = [
    { index: 1, embedding: [0.25, -2] },
    { index: 0, embedding: Buffer.from(Float32Array.of(1, 0.5).buffer).toString('base64') },
  ];
  fake.acts = [says(200, { data, usage: { prompt_tokens: 7, total_tokens: 7 } })];
  const made = await embeddings(front, { model: 'vectors', input: ['a', 'b'], dimensions: 2 });
  t.same(vectorsOf(made), [
    [1, 0.5],
    [0.25, -2],
  ]);
  t.same(made.usage, { prompt_tokens: 7, total_tokens: 7 });
  const [asked] = fake.chats;
  t.equal(asked?.url, '/v1/embeddings');
  t.equal(asked?.headers.authorization, 'Bearer key-of-upstream');
  t.same(asked?.body, {
    model: 'their-embedder',
    input: ['a', 'b'],
    encoding_format: 'base64',
    dimensions: 2,
  });
  const results = [
    { index: 1, relevance_score: -3.5 },
    { index: 0, relevance_score: 0.9 },
  ];
  fake.acts = [says(200, { results, usage: { total_tokens: 9 } })];
  const ranking = await ranked(front, { model: 'ranks', query: 'q', documents: ['a', 'b'] });
  t.same(ranking.results, [
    { index: 0, relevance_score: 0.9 },
    { index: 1, relevance_score: -3.5 },
  ]);
  t.equal(ranking.usage.prompt_tokens, 9);
  t.same(fake.chats[1]?.body, {
    model: 'their-ranker',
    query: 'q',
    documents: ['a', 'b'],
    return_documents: false,
  });
});

t.test('failures of an upstream are told as what they are, without its key', async (t) => {
  const fake = await FakeUpstream.open(t);
  const front = await openFront(fake.url);
  const body = { model: 'vectors', input: ['a', 'b'] };
  const one = { index: 0, embedding: [1] };
  const cases = [
    [says(400, { error: { message: 'no, key-of-upstream' } }), 400, /refuses the request: no, …/],
    [says(404, 'none'), 503, /does not serve us the model/],
    [says(500, 'broken'), 500, /the upstream failed/],
    [says(200, 'no JSON'), 500, /no JSON/],
    [says(200, { data: [one] }), 500, /no vector for each of 2 inputs/],
    [says(200, { data: [one, { index: 1, embedding: ['x'] }] }), 500, /no vector for each/],
    [says(200, { data: [one, one] }), 500, /no vector for each/],
  ] as const;
  for (const [act, status, message] of cases) {
    fake.acts = [act];
    const found = await refusal(t, await front.call('POST', '/embeddings', body));
    t.equal(found.status, status, String(message));
    t.match(found.message, message);
    t.notMatch(found.message, /key-of-upstream/);
  }
});

t.test('a client that leaves ends the request at the upstream', async (t) => {
  const fake = await FakeUpstream.open(t);
  const front = await openFront(fake.url);
  let arrived = () => {};
  const began = new Promise<void>((resolve) => {
    arrived = resolve;
  });
  fake.acts = [() => arrived()];
  const abort = new AbortController();
  const asked = fetch(`${front.url}/embeddings`, {
    method: 'POST',
    headers: { authorization: `Bearer ${aliceKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'vectors', input: 'a' }),
    signal: abort.signal,
  });
  await began;
  abort.abort();
  await t.rejects(asked);
  await fake.chats[0]?.gone;
  t.pass('its connection is closed');
});
