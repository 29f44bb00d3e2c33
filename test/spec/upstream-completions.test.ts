/** Completions of a model that runs on another server: here another preface, whose answers are known. */
import t from 'tap';
import { model, openWithSettings } from '../support/chat-client.js';
import { ask, completed, streamed, textsOf } from '../support/completions-client.js';
import { aliceKey, openService } from '../support/service.js';

const back = await openService(t);
const upstreams = [{ url: back.url, apiKey: aliceKey, model }];
const front = await openWithSettings(t, {
  models: { [model]: { engine: 'openai', tokenizer: 'bytes', weights: null, upstreams } },
});

t.test('text, ids, choices and streams', async (t) => {
  t.same(textsOf(await completed(front, { prompt: ['one two', 'three'] })), ['one two', 'three']);
  t.same(textsOf(await completed(front, { prompt: [...Buffer.from('Hi')] })), ['Hi']);
  const twice = await completed(front, { prompt: 'a b', n: 2, temperature: 1, logprobs: 1 });
  t.same(textsOf(twice), ['a b', 'a b']);
  t.same(twice.choices[0]?.logprobs?.tokens, ['a', ' ', 'b']);
  t.match(twice.usage, { prompt_tokens: 3, completion_tokens: 6 });
  const chunks = await streamed(front, { prompt: 'one two', stop: ' two' });
  t.equal(chunks.map(({ choices }) => choices[0]?.text ?? '').join(''), 'one');
});

t.test('the log-probabilities of a prompt', async (t) => {
  const { choices, usage } = await completed(front, {
    prompt: 'é b',
    echo: true,
    logprobs: 1,
    max_tokens: 2,
  });
  t.match(choices[0], {
    text: 'é bé',
    logprobs: {
      tokens: ['bytes:\\xc3', 'bytes:\\xa9', ' ', 'b', 'bytes:\\xc3', 'bytes:\\xa9'],
      token_logprobs: [null, 0, 0, 0, 0, 0],
      text_offset: [0, 1, 1, 2, 3, 4],
    },
  });
  t.match(usage, { prompt_tokens: 4, completion_tokens: 2 });
  const none = await completed(front, { prompt: 'ab', echo: true, logprobs: 0, max_tokens: 0 });
  t.match(none.choices[0], { text: 'ab', finish_reason: 'length' });
});

t.test('what the server refuses is told', async (t) => {
  const response = await ask(front, { prompt: '/fail x' });
  t.equal(response.status, 500);
  await response.text();
});
