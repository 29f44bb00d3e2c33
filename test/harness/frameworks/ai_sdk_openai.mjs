// Drives a running service through the AI SDK and its own provider for OpenAI, which speaks the Responses API.
import assert from 'node:assert/strict';
import { createOpenAI } from '@ai-sdk/openai';
import { generateText, isStepCount, Output, stepCountIs, streamText, tool } from 'ai';
import { z } from 'zod';

const openai = createOpenAI({ baseURL: process.env.ECHO_URL, apiKey: process.env.API_KEY });
const model = openai('svc-v1-8k');
const once = { maxRetries: 0 };
const stepsMax = (isStepCount ?? stepCountIs)(3);

const tools = {
  get_weather: tool({
    description: 'The weather of a city.',
    inputSchema: z.object({ city: z.string(), days: z.number().int().min(1) }),
    execute: async ({ city, days }) => `${city}: sunny for ${days} days`,
  }),
};

/** A text that the echo engine repeats, and that the service reads as a call. */
const ask = `<tool_call>${JSON.stringify({ name: 'get_weather', arguments: { city: 'Rome', days: 2 } })}</tool_call>`;

const steps = {
  'a plain answer': async () => {
    const { text, usage, finishReason } = await generateText({ model, prompt: 'Hello you', ...once });
    assert.deepEqual([text, finishReason, usage.outputTokens], ['Hello you', 'stop', 9]);
  },
  'a stream': async () => {
    const answer = streamText({ model, prompt: 'one two three', ...once });
    const pieces = [];
    for await (const piece of answer.textStream) pieces.push(piece);
    assert.equal(pieces.join(''), 'one two three');
    assert.ok(pieces.length > 1);
    assert.equal(await answer.finishReason, 'stop');
  },
  'a tool, whose call is referred to by its id': async () => {
    const { text, steps: made } = await generateText({ model, prompt: ask, tools, stopWhen: stepsMax, ...once });
    assert.match(text, /Rome: sunny for 2 days/);
    assert.equal(made.length, 2);
  },
  'the same without kept responses': async () => {
    const providerOptions = { openai: { store: false } };
    const { text } = await generateText({ model, prompt: ask, tools, stopWhen: stepsMax, providerOptions, ...once });
    assert.match(text, /Rome: sunny for 2 days/);
  },
  'a tool in a stream': async () => {
    const answer = streamText({ model, prompt: ask, tools, stopWhen: stepsMax, ...once });
    await answer.consumeStream();
    assert.match(await answer.text, /Rome: sunny for 2 days/);
  },
  'an object': async () => {
    const schema = z.object({ colour: z.enum(['red', 'green']), count: z.number().int().max(99) });
    const { output } = await generateText({ model, prompt: 'Paint', output: Output.object({ schema }), ...once });
    assert.ok(['red', 'green'].includes(output.colour));
  },
  'a failure in mid-stream': async () => {
    const errors = [];
    const onError = ({ error }) => void errors.push(error);
    const answer = streamText({ model, prompt: '/fail some words', onError, ...once });
    await answer.consumeStream();
    assert.ok(errors.length > 0);
  },
};

for (const [step, act] of Object.entries(steps)) {
  const beganMs = performance.now();
  let error;
  try {
    await act();
  } catch (cause) {
    error = String(cause?.stack ?? cause).slice(0, 1_500);
  }
  const outcome = { step, ok: error === undefined, ms: performance.now() - beganMs, error };
  console.log(JSON.stringify(outcome));
}
console.log(JSON.stringify({ step: 'end', ok: true, ms: 0 }));
