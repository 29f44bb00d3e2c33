/**
 * §4.3, header mode: a chat that begins with a cache is a hit, and says what it saved in every place and manner.
 */
import t from 'tap';
import {
  asBob,
  ask,
  askWith,
  createCache,
  hitHeaders,
  openGated,
  readyCache,
  type ShownCache,
  said,
  untilCache,
} from '../support/cache-client.js';
import type { Fields } from '../support/chat-client.js';
import { openService } from '../support/service.js';

t.setTimeout(120_000);

const service = await openService(t);
const gated = await openGated(t);

const weather = {
  type: 'function',
  function: {
    name: 'get_weather',
    description: 'The weather of a place',
    parameters: { type: 'object', properties: { place: { type: 'string', enum: ['Rome'] } } },
  },
};
const reader = { role: 'system', content: 'You know this text: Ω is the last letter. 😀' };
const tokensOf = (tokens: number) => ({
  cached_tokens: tokens,
  prompt_tokens_details: { cached_tokens: tokens },
});

t.test('a hit: every header, and the same number in both places of usage', async (t) => {
  const cache = await readyCache(service, { messages: [reader] });
  t.ok(cache.tokens > reader.content.length);
  const asked = await askWith(service, cache.id, [reader, said('What is last?')]);
  t.equal(asked.status, 200);
  t.strictSame(asked.cache, hitHeaders(cache), 'these headers and no others');
  t.equal(asked.text, 'What is last?');
  t.match(asked.usage, [tokensOf(cache.tokens)]);
  const plain = await ask(service, [reader, said('What is last?')]);
  t.strictSame(plain.cache, {}, 'no cache was named');
  t.equal(plain.text, asked.text);
  t.notMatch(plain.usage, [{ cached_tokens: Number }], 'nothing was reused');
  t.notOk('prompt_tokens_details' in (plain.usage[0] ?? {}));
  t.equal(asked.usage[0]?.prompt_tokens, plain.usage[0]?.prompt_tokens, 'cached tokens included');
  t.equal(asked.usage[0]?.total_tokens, plain.usage[0]?.total_tokens);
});

t.test('streamed: the headers come before the chunks, the usage with each choice', async (t) => {
  const cache = await readyCache(service, { messages: [reader] });
  const messages = [reader, said('one two three')];
  const asked = await askWith(service, cache.id, messages, { stream: true });
  t.equal(asked.contentType, 'text/event-stream');
  t.strictSame(asked.cache, hitHeaders(cache));
  t.equal(asked.text, 'one two three');
  t.match(asked.usage, [tokensOf(cache.tokens)]);
  const plain = await ask(service, messages, {}, { stream: true });
  t.notOk('cached_tokens' in (plain.usage[0] ?? {}));
});

t.test('with n the saved tokens count once', async (t) => {
  const cache = await readyCache(service, { messages: [reader] });
  const more = { n: 3, temperature: 1 };
  const whole = await askWith(service, cache.id, [reader, said('Hi')], more);
  t.strictSame(whole.cache, hitHeaders(cache));
  t.match(whole.usage, [tokensOf(cache.tokens)]);
  const streamed = await askWith(service, cache.id, [reader, said('Hi')], {
    ...more,
    stream: true,
  });
  t.strictSame(streamed.cache, hitHeaders(cache));
  t.equal(streamed.usage.length, 3);
  for (const usage of streamed.usage) t.match(usage, tokensOf(cache.tokens));
});

t.test('with tools, which must be the very same', async (t) => {
  const cache = await readyCache(service, { messages: [reader], tools: [weather] });
  const messages = [reader, said('Weather?')];
  const asked = await askWith(service, cache.id, messages, { tools: [weather] });
  t.strictSame(asked.cache, hitHeaders(cache));
  const forced = await askWith(service, cache.id, messages, {
    tools: [weather],
    tool_choice: 'none',
  });
  t.match(forced.cache, { status: 'hit' }, 'the choice among them is no part of the prefix');
  const none = await askWith(service, cache.id, messages);
  t.strictSame(none.cache, {
    status: 'miss',
    'miss-reason': 'tools has 0 items, the cache has 1 item',
  });
});

t.test('tools absent, null and empty are the same', async (t) => {
  for (const cached of [{}, { tools: null }, { tools: [] }]) {
    const cache = await readyCache(service, { messages: [reader], ...cached });
    for (const tools of [undefined, null, []]) {
      const name = JSON.stringify([cached, tools]);
      const more: Fields = tools === undefined ? {} : { tools };
      const asked = await askWith(service, cache.id, [reader, said('Hi')], more);
      t.strictSame(asked.cache, hitHeaders(cache), name);
    }
  }
});

t.test('a cache of tools alone', async (t) => {
  const cache = await readyCache(service, { messages: [], tools: [weather] });
  const asked = await askWith(service, cache.id, [said('Weather?')], { tools: [weather] });
  t.strictSame(asked.cache, hitHeaders(cache));
  // The template puts tools into the first system message, so these tokens stand elsewhere.
  const system = await askWith(service, cache.id, [reader, said('Weather?')], { tools: [weather] });
  t.strictSame(system.cache, {
    status: 'miss',
    'miss-reason': 'the prompt of the chat does not begin with the tokens of the cache',
  });
});

t.test('calls and their results inside a cache', async (t) => {
  const call = {
    id: 'call_1',
    type: 'function',
    function: { name: 'get_weather', arguments: '{"place": "Rome"}' },
  };
  const messages = [
    reader,
    { role: 'user', content: 'Weather?', name: 'Ann' },
    { role: 'assistant', content: null, tool_calls: [call] },
    { role: 'tool', tool_call_id: 'call_1', content: 'sunny' },
  ];
  const cache = await readyCache(service, { messages, tools: [weather] });
  const asked = await askWith(service, cache.id, [...messages, said('And now?')], {
    tools: [weather],
  });
  t.strictSame(asked.cache, hitHeaders(cache));
});

t.test('partial goes on from the message behind the cached ones', async (t) => {
  const cache = await readyCache(service, { messages: [reader, said('Begin')] });
  const begun = { role: 'assistant', content: 'Once', partial: true };
  const asked = await askWith(service, cache.id, [reader, said('Begin'), begun]);
  t.strictSame(asked.cache, hitHeaders(cache));
  t.equal(asked.usage[0]?.prompt_tokens, cache.tokens + '<assistant\nOnce'.length);
});

t.test('a chat that holds nothing but the cached messages', async (t) => {
  const cache = await readyCache(service, { messages: [reader, said('Question?')] });
  const asked = await askWith(service, cache.id, [reader, said('Question?')]);
  t.strictSame(asked.cache, hitHeaders(cache), 'what opens the answer is not in the cache');
  t.equal(asked.text, 'Question?');
});

t.test('every model of the family, other options, and several caches at once', async (t) => {
  const cache = await readyCache(service, { messages: [reader] });
  for (const model of ['svc-v1-8k', 'svc-v1-32k', 'svc-v1-128k', 'svc-v1-auto']) {
    const more = { model, max_tokens: 3, stop: ['x'], user: 'u', seed: 1 };
    const asked = await askWith(service, cache.id, [reader, said('Hi')], more);
    t.strictSame(asked.cache, hitHeaders(cache), model);
  }
  const caches = await Promise.all(
    Array.from({ length: 12 }, (_, at) => readyCache(service, { messages: [said(`text ${at}`)] })),
  );
  await Promise.all(
    caches.map(async (each, at) => {
      const asked = await askWith(service, each.id, [said(`text ${at}`), said('Hi')]);
      t.strictSame(asked.cache, hitHeaders(each), `text ${at}`);
    }),
  );
});

t.test('what the engine says it reused is what is told', async (t) => {
  const half = await readyCache(gated, { messages: [said('/half of this is reused')] });
  const saved = Math.floor(half.tokens / 2);
  for (const stream of [false, true]) {
    const messages = [said('/half of this is reused'), said('Hi')];
    const asked = await askWith(gated, half.id, messages, { stream });
    t.strictSame(asked.cache, { ...hitHeaders(half), 'token-saved': `${saved}` });
    t.match(asked.usage, [tokensOf(saved)]);
  }
});

t.test('a prefix that the engine could not reuse is a miss, and nothing is claimed', async (t) => {
  const lost = await readyCache(gated, { messages: [said('/lost is this')] });
  for (const stream of [false, true]) {
    const asked = await askWith(gated, lost.id, [said('/lost is this'), said('Hi')], { stream });
    t.equal(asked.status, 200);
    t.equal(asked.text, 'Hi');
    t.strictSame(asked.cache, {
      status: 'miss',
      'miss-reason': 'the engine could not reuse the prefix',
    });
    t.notOk('cached_tokens' in (asked.usage[0] ?? {}));
    // It is prefilled anew meanwhile.
    await untilCache(gated, lost.id, { status: 'ready' });
  }
});

/** Prompt and answer of the same words, with and without a cache. */
async function alike(cache: ShownCache, words: readonly string[]): Promise<[string[], string[]]> {
  const messages = (word: string) => [reader, said(word)];
  const cold = await Promise.all(words.map((word) => ask(service, messages(word))));
  const warm = await Promise.all(words.map((word) => askWith(service, cache.id, messages(word))));
  return [cold.map(({ text }) => text), warm.map(({ text }) => text)];
}

t.test('a hit answers as a cold chat does', async (t) => {
  const cache = await readyCache(service, { messages: [reader] });
  const words = Array.from({ length: 20 }, (_, at) => `word ${at} ${'x'.repeat(at)}`);
  const [cold, warm] = await alike(cache, words);
  t.strictSame(warm, cold);
});

t.test('owners are walls', async (t) => {
  const cache = await readyCache(service, { messages: [reader], tags: ['walls'] });
  const messages = [reader, said('Hi')];
  await askWith(service, cache.id, messages);
  const plain = await ask(service, messages, asBob);
  t.strictSame(plain.cache, {}, 'the same prefix under another key says nothing');
  t.notOk('cached_tokens' in (plain.usage[0] ?? {}), 'and saves nothing');
  const dry = await ask(service, messages, { ...asBob, 'x-svc-context-cache-dryrun': '1' });
  t.notOk(dry.cache.nearest, 'nor is it the nearest');
  const own = await createCache(service, { messages: [reader] }, asBob);
  t.equal(own.status, 'pending', 'it is prefilled for that owner alone');
  t.not(own.id, cache.id);
  const refused = await askWith(service, cache.id, messages, { headers: asBob });
  t.match(refused, { status: 403, error: 'You are not allowed to get other user info' });
  t.strictSame(refused.cache, {});
});

t.test('a cache that is deleted while the chat is counted never fails it', async (t) => {
  for (let i = 0; i < 20; i++) {
    const prefix = [said(`deleted meanwhile ${i}`)];
    const { id } = await readyCache(service, { messages: prefix });
    const chat = [...prefix, said(`${i}`.padEnd(1000 * (40 + i)))];
    const asking = askWith(service, id, chat, { model: 'svc-v1-128k', max_tokens: 1 });
    const deleted = service.call('DELETE', `/caching/${id}`);
    const asked = await asking;
    t.equal((await deleted).status, 200);
    t.equal(asked.status, 200, `${asked.error}`);
  }
});
