// Drives a running service through the OpenAI Agents SDK for JavaScript with its default model, the Responses API.
import assert from 'node:assert/strict';
import { Agent, OpenAIResponsesModel, Runner, setTracingDisabled, tool } from '@openai/agents';
import OpenAI from 'openai';
import { z } from 'zod';

setTracingDisabled(true);
const client = new OpenAI({
  apiKey: process.env.API_KEY,
  baseURL: process.env.ECHO_URL,
  maxRetries: 0,
});
const model = new OpenAIResponsesModel(client, 'svc-v1-8k');
const runner = new Runner({ tracingDisabled: true });

const getWeather = tool({
  name: 'get_weather',
  description: 'The weather of a city.',
  parameters: z.object({ city: z.string(), days: z.number().int().min(1) }),
  execute: async ({ city, days }) => `${city}: sunny for ${days} days`,
});
const Report = z.object({ code: z.string().regex(/^[A-Z]{2}\d$/), degrees: z.number().lt(60) });

/** A text that the echo engine repeats, and that the service reads as a call. */
const call = (name, input) =>
  `<tool_call>${JSON.stringify({ name, arguments: input })}</tool_call>`;
const ask = call('get_weather', { city: 'Rome', days: 2 });

const steps = {
  'a plain answer': async () => {
    const { finalOutput } = await runner.run(new Agent({ name: 'a', model }), 'Hello you');
    assert.equal(finalOutput, 'Hello you');
  },
  'a tool is called and its result goes back': async () => {
    const agent = new Agent({ name: 'a', model, tools: [getWeather] });
    const { finalOutput } = await runner.run(agent, ask);
    assert.match(finalOutput, /Rome: sunny for 2 days/);
  },
  'tools beside an output type': async () => {
    const agent = new Agent({ name: 'a', model, tools: [getWeather], outputType: Report });
    const { finalOutput } = await runner.run(agent, ask);
    assert.ok(Report.parse(finalOutput));
  },
  'a stream with a call': async () => {
    const agent = new Agent({ name: 'a', model, tools: [getWeather] });
    const result = await runner.run(agent, ask, { stream: true });
    for await (const _ of result);
    assert.match(result.finalOutput, /Rome: sunny for 2 days/);
  },
  'a run goes on from a response': async () => {
    const agent = new Agent({ name: 'a', model });
    const { lastResponseId } = await runner.run(agent, 'Hello you');
    const next = await runner.run(agent, 'And you', { previousResponseId: lastResponseId });
    assert.equal(next.finalOutput, 'And you');
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
