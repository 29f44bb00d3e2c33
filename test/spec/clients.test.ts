/**
 * What widely copied clients do without a parser: each test is one of them, as small as it is in the wild.
 */
import t from 'tap';
import { complete, type Fields, post, said } from '../support/chat-client.js';
import { openService, type TestService } from '../support/service.js';

const service = await openService(t);

t.test(
  'a client that reads lines: JSON at each blank line, and choices[0] of all of them',
  async (t) => {
    const stream = await post(service, said('one two three', { stream: true }));
    let data = '';
    let answer = '';
    let done = false;
    for (const line of (await stream.text()).split('\n')) {
      if (line.startsWith('data: ')) data = line.slice('data: '.length);
      if (line !== '' || data === '') continue;
      if (data === '[DONE]') {
        done = true;
        break;
      }
      const chunk = JSON.parse(data) as { choices: [{ delta: { content?: string } }] };
      answer += chunk.choices[0].delta.content ?? '';
      data = '';
    }
    t.ok(done);
    t.equal(answer, 'one two three');
  },
);

t.test('a client that compares the first bytes to recognise an error', async (t) => {
  for (const body of [said('x', { temperature: 9 }), { ...said('x'), model: 'none' }, '{']) {
    const response = await post(service, body);
    t.equal(response.headers.get('content-type'), 'application/json');
    t.equal((await response.text()).slice(0, 9), '{"error":');
  }
});

t.test('a client that compares the content type of a stream', async (t) => {
  const response = await post(service, said('x', { stream: true }));
  t.equal(response.headers.get('content-type'), 'text/event-stream');
  await response.text();
});

t.test(
  'a benchmark: max_completion_tokens, text parts, ignore_eos, usage from the chunk without choices',
  async (t) => {
    const body = said([{ type: 'text', text: '/repeat ab ' }], {
      stream: true,
      ignore_eos: true,
      max_completion_tokens: 30,
      temperature: 0.0,
      stream_options: { include_usage: true, continuous_usage_stats: true },
      repetition_penalty: 1.0,
      user: 'bench',
      seed: 0,
      logprobs: false,
    });
    const response = await service.call('POST', '/chat/completions', body, {
      'x-request-id': 'bench-1',
    });
    const text = await response.text();
    const all = text.split('\n\n').filter((event) => event.startsWith('data: {'));
    const parsed = all.map(
      (event) => JSON.parse(event.slice(6)) as { choices: unknown[]; usage?: Fields },
    );
    const counted = parsed.filter(({ choices }) => choices.length === 0);
    t.equal(counted.length, 1);
    t.equal(counted[0]?.usage?.completion_tokens, 30);
    t.equal(response.headers.get('x-request-id'), 'bench-1');
  },
);

t.test('a harness that asks for health, then takes the first model of the list', async (t) => {
  const origin = service.url.slice(0, -'/v1'.length);
  t.equal((await fetch(`${origin}/health`)).status, 200);
  const list = (await (await service.call('GET', '/models')).json()) as { data: { id: string }[] };
  const answer = await complete(service, { ...said('Hi'), model: list.data[0]?.id });
  t.equal(answer.choices[0]?.message.content, 'Hi');
});

t.test('curl without a content type, or with that of a form', async (t) => {
  for (const type of ['application/x-www-form-urlencoded', 'application/json; charset=utf-8', '']) {
    const headers = { 'content-type': type };
    const response = await service.call('POST', '/chat/completions', said('x'), headers);
    t.equal(response.status, 200, type);
    await response.text();
  }
});

t.test('the OpenAPI document describes what is answered here', async (t) => {
  const document = await openApi(service);
  const paths = Object.keys(document.paths);
  for (const path of ['/chat/completions', '/models', '/tokenizers/estimate-token-count']) {
    t.ok(
      paths.some((each) => each.endsWith(path)),
      path,
    );
  }
});

async function openApi(of: TestService): Promise<{ paths: Fields }> {
  const response = await fetch(`${of.url.slice(0, -'/v1'.length)}/openapi.json`);
  return (await response.json()) as { paths: Fields };
}
