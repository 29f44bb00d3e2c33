/**
 * Drives a running service through the AI SDK and its provider for compatible servers, and prints one JSON line a step.
 * It must never import anything of the service: what it is told by its environment is all a client has.
 */
import assert from 'node:assert/strict';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { APICallError, generateText, Output, streamText, tool } from 'ai';
import { z } from 'zod';

const { REAL_URL, ECHO_URL, API_KEY } = process.env;

function provider(baseURL: string | undefined, apiKey = API_KEY) {
  return createOpenAICompatible({
    name: 'preface',
    baseURL: `${baseURL}`,
    apiKey: `${apiKey}`,
    includeUsage: true,
    supportsStructuredOutputs: true,
  });
}

const echo = provider(ECHO_URL)('svc-v1-8k');
const real = provider(REAL_URL)('svc-v1-8k');
const once = { maxRetries: 0 };
/** Tokens for the longest answer that a tool or a schema here lets be. */
const ENOUGH = 200;
const prompt = 'Weather in Rome for 3 days?';
const tools = {
  get_weather: tool({
    description: 'The weather of a city',
    inputSchema: z.object({ city: z.string().max(20), days: z.number().int().min(1).max(9) }),
    execute: async ({ city, days }) => `${city}: sunny for ${days} days`,
  }),
};

async function generate() {
  const { text, usage, finishReason } = await generateText({
    model: echo,
    system: 'Be short.',
    prompt: 'one two three',
    ...once,
  });
  assert.deepEqual([text, finishReason, usage.outputTokens], ['one two three', 'stop', 13]);
}

async function contentInParts() {
  const content = [
    { type: 'text' as const, text: 'one ' },
    { type: 'text' as const, text: 'two' },
  ];
  const { text } = await generateText({
    model: echo,
    messages: [{ role: 'user', content }],
    ...once,
  });
  assert.equal(text, 'one two');
}

async function streamWithUsage() {
  const answer = streamText({ model: echo, prompt: 'one two three', ...once });
  const pieces: string[] = [];
  for await (const piece of answer.textStream) pieces.push(piece);
  assert.equal(pieces.join(''), 'one two three');
  assert.ok(pieces.length > 1, 'in pieces');
  const { inputTokens, outputTokens } = await answer.usage;
  assert.ok((inputTokens ?? 0) > 13);
  assert.equal(outputTokens, 13);
  assert.equal(await answer.finishReason, 'stop');
}

async function aFailureInMidStream() {
  const errors: unknown[] = [];
  const onError = ({ error }: { error: unknown }) => void errors.push(error);
  const answer = streamText({ model: echo, prompt: '/fail some words', onError, ...once });
  let text = '';
  for await (const piece of answer.textStream) text += piece;
  assert.equal(text, 'some words');
  assert.equal(errors.length, 1);
}

async function anAbort() {
  const leave = new AbortController();
  const told = new Promise<void>((resolve) => {
    const answer = streamText({
      model: echo,
      prompt: '/wait',
      abortSignal: leave.signal,
      onAbort: () => resolve(),
      onChunk: () => leave.abort(),
      ...once,
    });
    setTimeout(() => leave.abort(), 200);
    void answer.consumeStream();
  });
  await told;
}

async function aForcedTool() {
  const toolChoice = { type: 'tool', toolName: 'get_weather' } as const;
  const answer = await generateText({
    model: real,
    prompt,
    tools,
    toolChoice,
    maxOutputTokens: ENOUGH,
    ...once,
  });
  assert.equal(answer.finishReason, 'tool-calls');
  const [result] = answer.toolResults;
  assert.match(String(result?.output), /sunny for \d days$/);
}

async function aForcedToolInAStream() {
  const answer = streamText({
    model: real,
    prompt,
    tools,
    toolChoice: 'required',
    maxOutputTokens: ENOUGH,
    ...once,
  });
  await answer.consumeStream();
  const [result] = await answer.toolResults;
  assert.match(String(result?.output), /sunny for \d days$/);
}

async function anObject() {
  const schema = z.object({ colour: z.enum(['red', 'green']), count: z.number().int().max(99) });
  const { output } = await generateText({
    model: real,
    prompt: 'Choose a paint.',
    output: Output.object({ schema }),
    maxOutputTokens: ENOUGH,
    ...once,
  });
  assert.ok(['red', 'green'].includes(output.colour));
}

async function errors() {
  const stranger = provider(ECHO_URL, 'wrong')('svc-v1-8k');
  const denied = await failure(stranger);
  assert.equal(denied.statusCode, 401);
  assert.equal(denied.message, 'Incorrect API key provided');
  const missing = await failure(provider(ECHO_URL)('gpt'));
  assert.equal(missing.statusCode, 404);
  assert.equal(missing.isRetryable, false);
}

async function failure(model: typeof echo): Promise<APICallError> {
  const error: unknown = await generateText({ model, prompt: 'Hi', ...once }).then(
    () => null,
    (cause: unknown) => cause,
  );
  assert.ok(APICallError.isInstance(error), String(error));
  return error;
}

const steps = [
  generate,
  contentInParts,
  streamWithUsage,
  aFailureInMidStream,
  anAbort,
  aForcedTool,
  aForcedToolInAStream,
  anObject,
  errors,
];

for (const step of steps) {
  const began = performance.now();
  const error = await step().then(
    () => undefined,
    (cause: unknown) => (cause instanceof Error ? (cause.stack ?? cause.message) : String(cause)),
  );
  const outcome = { step: step.name, ok: error === undefined, ms: performance.now() - began };
  console.log(JSON.stringify(error === undefined ? outcome : { ...outcome, error }));
}
console.log(JSON.stringify({ step: 'end', ok: true, ms: 0 }));
