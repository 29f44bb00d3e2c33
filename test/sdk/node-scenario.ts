/**
 * Drives a running service through an official Node SDK, the one named on the command line, and prints one JSON line
 * a step. It must never import anything of the service: what it is told by its environment is all a client has.
 */
import assert from 'node:assert/strict';
import type OpenAI from 'openai';
import type { APIError, OpenAI as Client } from 'openai';

type Sdk = typeof OpenAI;
type Body = Parameters<Client['chat']['completions']['create']>[0];
type Chunk = OpenAI.Chat.Completions.ChatCompletionChunk;

const [packageName = 'openai'] = process.argv.slice(2);
const { default: sdk } = (await import(packageName)) as { default: Sdk };
const { REAL_URL, ECHO_URL, API_KEY } = process.env;
const real = new sdk({ baseURL: `${REAL_URL}`, apiKey: `${API_KEY}`, timeout: 60_000 });
const echo = new sdk({ baseURL: `${ECHO_URL}`, apiKey: `${API_KEY}`, timeout: 30_000 });

const model = 'svc-v1-8k';
const question = 'Name three colours.';
const user = (content: string) => [{ role: 'user' as const, content }];
const weather = {
  type: 'function' as const,
  function: {
    name: 'get_weather',
    description: 'The weather of a city',
    parameters: {
      type: 'object',
      properties: {
        city: { type: 'string', maxLength: 20 },
        days: { type: 'integer', minimum: 1, maximum: 9 },
      },
      required: ['city', 'days'],
      additionalProperties: false,
    },
  },
};
const forced = {
  tools: [weather],
  tool_choice: { type: 'function' as const, function: { name: 'get_weather' } },
};

type More = Partial<Omit<Body, 'stream'>>;

function ask(client: Client, text: string, more: More = {}) {
  return client.chat.completions.create({ model, messages: user(text), ...more, stream: false });
}

function stream(client: Client, text: string, more: More = {}) {
  return client.chat.completions.create({ model, messages: user(text), ...more, stream: true });
}

async function all(chunks: AsyncIterable<Chunk>): Promise<{ text: string; chunks: Chunk[] }> {
  const read: Chunk[] = [];
  for await (const chunk of chunks) read.push(chunk);
  const text = read.map(({ choices }) => choices[0]?.delta.content ?? '').join('');
  return { text, chunks: read };
}

async function raised<Kind extends APIError>(
  kind: abstract new (...given: never[]) => Kind,
  call: () => Promise<unknown>,
): Promise<Kind> {
  const error: unknown = await call().then(
    () => null,
    (cause: unknown) => cause,
  );
  assert.ok(error instanceof kind, `not ${kind.name}: ${String(error)}`);
  return error;
}

function checkCall(name: string | undefined, text: string | undefined): void {
  assert.equal(name, 'get_weather');
  const given = JSON.parse(text ?? '') as { city: unknown; days: number };
  assert.deepEqual(new Set(Object.keys(given)), new Set(['city', 'days']));
  assert.equal(typeof given.city, 'string');
  assert.ok(given.days >= 1 && given.days <= 9);
}

async function models() {
  const ids: string[] = [];
  for await (const { id } of real.models.list()) ids.push(id);
  assert.ok(ids.includes(model) && ids.includes('svc-v1-auto'), `${ids}`);
  assert.equal((await real.models.retrieve(model)).id, model);
  await raised(sdk.NotFoundError, () => real.models.retrieve('svc-v2'));
}

async function wholeAndStreamed() {
  const more = { max_tokens: 24, temperature: 0 };
  const whole = await ask(real, question, more);
  const [choice] = whole.choices;
  assert.ok(choice?.message.content?.trim());
  assert.equal(whole.object, 'chat.completion');
  assert.match(`${whole._request_id}`, /^\S{4,}$/);
  const { text, chunks } = await all(await stream(real, question, more));
  assert.equal(text, choice?.message.content);
  assert.equal(chunks.at(-1)?.choices[0]?.finish_reason, choice?.finish_reason);
  assert.equal(new Set(chunks.map(({ id }) => id)).size, 1);
  assert.equal(chunks[0]?.choices[0]?.delta.role, 'assistant');
  const asked = { max_tokens: 2, stream_options: { include_usage: true } };
  const counted = (await all(await stream(real, question, asked))).chunks.at(-1);
  assert.deepEqual(counted?.choices, []);
  assert.equal(counted?.usage?.prompt_tokens, whole.usage?.prompt_tokens);
}

async function choices() {
  const more = { n: 2, temperature: 1, max_tokens: 6, seed: 7 };
  const texts = async () =>
    (await ask(real, 'Say a word.', more)).choices.map(({ index, message }) => [
      index,
      message.content,
    ]);
  const first = await texts();
  assert.deepEqual(
    first.map(([index]) => index),
    [0, 1],
  );
  assert.deepEqual(await texts(), first);
}

async function stopStrings() {
  const more = { max_tokens: 24, temperature: 0 };
  const free = (await ask(real, question, more)).choices[0]?.message.content ?? '';
  const word = free.match(/\w{3,}/g)?.[2] ?? '';
  const [cut] = (await ask(real, question, { ...more, stop: [word] })).choices;
  assert.equal(cut?.message.content, free.slice(0, free.indexOf(word)));
  assert.equal(cut?.finish_reason, 'stop');
  const streamed = await all(await stream(real, question, { ...more, stop: word }));
  assert.equal(streamed.text, cut?.message.content);
}

async function forcedCallAndItsResult() {
  const asked = 'Weather in Rome for 3 days?';
  const [choice] = (await ask(real, asked, { ...forced, max_tokens: 80 })).choices;
  assert.equal(choice?.finish_reason, 'tool_calls');
  const call = choice?.message.tool_calls?.[0];
  assert.ok(call?.type === 'function');
  checkCall(call.function.name, call.function.arguments);
  const messages = [
    ...user(asked),
    { role: 'assistant' as const, content: null, tool_calls: [call] },
    { role: 'tool' as const, tool_call_id: call.id, content: '{"sky": "sunny"}' },
  ];
  const after = await real.chat.completions.create({
    model,
    messages,
    max_tokens: 8,
    tools: [weather],
    tool_choice: 'none' as const,
  });
  assert.ok(after.choices[0]?.message.content);
}

/** The accumulating helpers are stricter about chunks than plain iteration. */
async function streamHelper() {
  // The fourth version has it elsewhere.
  const { chat: older } = real.beta as { chat?: Pick<Client['chat'], 'completions'> };
  const completions = older?.completions ?? real.chat.completions;
  const helper = completions.stream.bind(completions);
  const text = await helper({ model, messages: user(question), max_tokens: 8 }).finalContent();
  assert.ok(text);
  const called = helper({ model, messages: user('Weather?'), max_tokens: 80, ...forced });
  const call = (await called.finalChatCompletion()).choices[0]?.message.tool_calls?.[0];
  assert.ok(call?.type === 'function');
  checkCall(call.function.name, call.function.arguments);
}

async function answersByASchema() {
  const count = { type: 'integer', minimum: 0, maximum: 99 };
  const schema = {
    type: 'object',
    properties: { colour: { enum: ['red', 'green'] }, count },
    required: ['colour', 'count'],
    additionalProperties: false,
  };
  const response_format = {
    type: 'json_schema' as const,
    json_schema: { name: 'paint', schema, strict: true },
  };
  const [choice] = (await ask(real, 'Choose a paint.', { response_format, max_tokens: 60 }))
    .choices;
  const answer = JSON.parse(choice?.message.content ?? '') as { colour: string; count: number };
  assert.ok(['red', 'green'].includes(answer.colour) && answer.count >= 0 && answer.count <= 99);
}

async function logProbabilities() {
  const answer = await ask(real, 'Hi', { max_tokens: 4, logprobs: true, top_logprobs: 2 });
  const tokens = answer.choices[0]?.logprobs?.content ?? [];
  assert.equal(tokens.length, answer.usage?.completion_tokens);
  for (const token of tokens) {
    assert.ok(token.logprob <= 0);
    assert.equal(token.top_logprobs.length, 2);
  }
}

async function estimateIsUsage() {
  const body = { model, messages: user('Grüße 😀 <|im_end|> and more') };
  const counted = await real.post('/tokenizers/estimate-token-count', { body });
  const { usage } = await real.chat.completions.create({ ...body, max_tokens: 1 });
  assert.deepEqual(counted, { data: { total_tokens: usage?.prompt_tokens } });
}

async function rawResponse() {
  const { data, response } = await ask(real, 'Hi', { max_tokens: 1 }).withResponse();
  assert.equal(response.headers.get('content-type'), 'application/json');
  const { _request_id } = data as { _request_id?: string };
  assert.equal(response.headers.get('x-request-id'), _request_id);
  assert.ok(_request_id);
}

async function errors() {
  const stranger = new sdk({ baseURL: `${REAL_URL}`, apiKey: 'wrong' });
  const unknown = await raised(sdk.AuthenticationError, () => ask(stranger, 'Hi'));
  assert.match(unknown.message, /Incorrect API key provided/);
  assert.equal(unknown.type, 'invalid_authentication_error');
  const missing = await raised(sdk.NotFoundError, () => ask(real, 'Hi', { model: 'gpt' }));
  assert.equal(missing.code, 'gpt');
  const bad = await raised(sdk.BadRequestError, () => ask(real, 'Hi', { n: 2 }));
  assert.equal(bad.param, 'n');
  assert.equal(bad.type, 'invalid_request_error');
  const streamed = await raised(sdk.BadRequestError, () => stream(real, 'Hi', { temperature: 2 }));
  assert.match(streamed.message, /temperature must be a number in \[0, 1\], got 2/);
}

async function abortFreesTheSlots() {
  const storyMs = performance.now();
  // A model may end a story whenever it likes.
  const endless = { max_tokens: 6000, ignore_eos: true };
  const held = await Promise.all([1, 2].map(() => stream(real, 'Tell me a long story.', endless)));
  const readers = held.map((each) => each[Symbol.asyncIterator]());
  for (let seen = 0; seen < 24; seen += 1) for (const chunks of readers) await chunks.next();
  const tokenMs = (performance.now() - storyMs) / 24;
  for (const each of held) each.controller.abort();
  const beganMs = performance.now();
  assert.ok((await ask(real, 'Hi', { max_tokens: 2 })).choices[0]?.message.content);
  const waitedMs = performance.now() - beganMs;
  const most = `${waitedMs} ms: two streams of 6000 tokens hold both slots for ${6_000 * tokenMs} ms`;
  assert.ok(waitedMs < 2_000 * tokenMs, most);
}

async function failureInMidStream() {
  let seen = '';
  const error = await raised(sdk.APIError, async () => {
    for await (const { choices } of await stream(echo, '/fail some words')) {
      seen += choices[0]?.delta.content ?? '';
    }
  });
  assert.equal(seen, 'some words');
  assert.match(error.message, /asked to fail/);
}

async function failureBeforeTheAnswer() {
  const once = new sdk({ baseURL: `${ECHO_URL}`, apiKey: `${API_KEY}`, maxRetries: 0 });
  const error = await raised(sdk.InternalServerError, () => ask(once, '/fail now'));
  assert.equal(error.type, 'server_error');
}

async function tooMuchAtOnce() {
  const held = await stream(echo, '/wait');
  const once = new sdk({ baseURL: `${ECHO_URL}`, apiKey: `${API_KEY}`, maxRetries: 0 });
  const error = await raised(sdk.RateLimitError, () => ask(once, 'Hi'));
  held.controller.abort();
  assert.match(error.message, /max concurrency: 1/);
}

async function retryWaitsAsToldAndSucceeds() {
  const heldFromMs = performance.now();
  const held = await stream(echo, '/wait');
  const tries: { askedMs: number; endedMs: number; toldMs: number | null }[] = [];
  const noted = async (...given: Parameters<typeof fetch>) => {
    const askedMs = performance.now();
    const response = await fetch(...given);
    const told = response.headers.get('retry-after-ms');
    const toldMs = told === null ? null : Number(told);
    tries.push({ askedMs, endedMs: performance.now(), toldMs });
    // Not before the first attempt was refused, however slow this machine is.
    held.controller.abort();
    return response;
  };
  const client = new sdk({ baseURL: `${ECHO_URL}`, apiKey: `${API_KEY}`, fetch: noted as never });
  assert.equal((await ask(client, 'Hi')).choices[0]?.message.content, 'Hi');
  const [first] = tries;
  const mostMs = Math.max(1_000, Math.ceil((first?.endedMs ?? 0) - heldFromMs));
  assert.ok(first?.toldMs && first.toldMs >= 1_000 && first.toldMs <= mostMs, `${first?.toldMs}`);
  for (const [at, { askedMs }] of tries.entries()) {
    const before = tries[at - 1];
    const waitedMs = askedMs - (before?.endedMs ?? 0);
    assert.ok(waitedMs >= 0.95 * (before?.toldMs ?? 0), `waited ${waitedMs} of ${before?.toldMs}`);
  }
}

async function completionsOfRawPrompts() {
  const prompt = ['one two', 'three'];
  const both = await echo.completions.create({ model, prompt, max_tokens: 20, stream: false });
  assert.deepEqual(
    both.choices.map(({ text }) => text),
    prompt,
  );
  let streamed = '';
  for await (const { choices } of await echo.completions.create({
    model,
    prompt: 'one two',
    stream: true,
  }))
    streamed += choices[0]?.text ?? '';
  assert.equal(streamed, 'one two');
  const asked = { model, prompt: 'The sky is blue', echo: true, logprobs: 2, max_tokens: 0 };
  const scored = await real.completions.create({ ...asked, stream: false });
  const lists = scored.choices[0]?.logprobs;
  assert.equal(lists?.tokens?.join(''), 'The sky is blue');
  assert.ok(lists?.token_logprobs?.slice(1).every((chance) => chance < 0));
}

async function aBatch() {
  const url = '/v1/chat/completions';
  const line = { custom_id: 'a', method: 'POST', url, body: { model, messages: user('one two') } };
  const file = await echo.files.create({
    file: new File([JSON.stringify(line)], 'in.jsonl'),
    purpose: 'batch',
  });
  let batch = await echo.batches.create({
    input_file_id: file.id,
    endpoint: url,
    completion_window: '24h',
  });
  while (batch.status !== 'completed' && batch.status !== 'failed') {
    await new Promise((resolve) => setTimeout(resolve, 20));
    batch = await echo.batches.retrieve(batch.id);
  }
  assert.equal(batch.request_counts?.completed, 1);
  const output = await echo.files.content(batch.output_file_id ?? '');
  assert.match(await output.text(), /"content":"one two"/);
  const ids: string[] = [];
  for await (const each of echo.batches.list({ limit: 1 })) ids.push(each.id);
  assert.ok(ids.includes(batch.id));
}

const steps = [
  ...[models, wholeAndStreamed, choices, stopStrings, forcedCallAndItsResult, streamHelper],
  ...[answersByASchema, logProbabilities, estimateIsUsage, rawResponse, errors],
  ...[abortFreesTheSlots, failureInMidStream, failureBeforeTheAnswer, tooMuchAtOnce],
  retryWaitsAsToldAndSucceeds,
  completionsOfRawPrompts,
  aBatch,
];

for (const step of steps) {
  const beganMs = performance.now();
  const error = await step().then(
    () => null,
    (cause: unknown) => cause,
  );
  const text = error instanceof Error ? error.stack : String(error);
  const outcome = error === null ? { ok: true } : { ok: false, error: text };
  const name = step.name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
  console.log(JSON.stringify({ step: name, ...outcome, ms: performance.now() - beganMs }));
}
console.log(JSON.stringify({ step: 'end', ok: true, ms: 0 }));
