/**
 * Anthropic's Node SDK, unmodified, against a service on the echo engine.
 */
import assert from 'node:assert/strict';
import Anthropic from '@anthropic-ai/sdk';
import { betaTool } from '@anthropic-ai/sdk/helpers/beta/json-schema';

const root = (process.env.ECHO_URL ?? '').replace(/\/v1$/, '');
const options = { baseURL: root, maxRetries: 0 };
const client = new Anthropic({ ...options, apiKey: process.env.ECHO_KEY ?? '' });
const model = 'svc-v1-8k';
const book: Anthropic.TextBlockParam = {
  type: 'text',
  text: 'All doors are closed. '.repeat(30),
  cache_control: { type: 'ephemeral' },
};

const asked = (text: string): Anthropic.MessageCreateParamsNonStreaming => ({
  model,
  max_tokens: 50,
  messages: [{ role: 'user', content: text }],
});

const steps: Readonly<Record<string, () => Promise<void>>> = {
  async whole() {
    const message = await client.messages.create(asked('Hello'));
    assert.deepEqual(message.content, [{ type: 'text', text: 'Hello' }]);
    assert.ok(message._request_id);
  },
  async streamed() {
    const texts: string[] = [];
    const stream = client.messages.stream(asked('one two'));
    stream.on('text', (text) => texts.push(text));
    const message = await stream.finalMessage();
    assert.deepEqual(texts, ['one ', 'two']);
    assert.equal(message.stop_reason, 'end_turn');
    assert.equal(message.usage.output_tokens, 7);
  },
  async counted() {
    const { messages } = asked('Hello');
    const { input_tokens: count } = await client.messages.countTokens({ model, messages });
    assert.equal(count, (await client.messages.create(asked('Hello'))).usage.input_tokens);
  },
  async cached() {
    const { usage } = await client.messages.create({ ...asked('First'), system: [book] });
    const created = usage.cache_creation_input_tokens ?? 0;
    assert.ok(created > 500, String(created));
    for (const endMs = Date.now() + 20_000; ; ) {
      const next = await client.messages.create({ ...asked('Second'), system: [book] });
      if (next.usage.cache_read_input_tokens === created) return;
      assert.ok(Date.now() < endMs, JSON.stringify(next.usage));
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  },
  /** The runner asks for a thread, is refused, and sends the whole conversation in every turn. */
  async looped() {
    const add = betaTool({
      name: 'add',
      description: 'Adds two numbers.',
      inputSchema: {
        type: 'object',
        properties: { a: { type: 'integer' }, b: { type: 'integer' } },
        required: ['a', 'b'],
      },
      run: ({ a, b }) => `The sum is ${a + b}.`,
    });
    const call = '<tool_call>{"name": "add", "arguments": {"a": 2, "b": 3}}</tool_call>';
    const runner = client.beta.messages.toolRunner({
      model,
      max_tokens: 100,
      tools: [add],
      messages: [{ role: 'user', content: call }],
    });
    const counts: number[] = [];
    for await (const { usage } of runner) counts.push(usage.input_tokens);
    assert.match(JSON.stringify((await runner.done()).content), /The sum is 5\./);
    assert.ok(counts.length === 2 && (counts[1] ?? 0) > (counts[0] ?? 0), String(counts));
  },
  async refused() {
    const none = client.messages.create({ ...asked('Hello'), model: 'none' });
    await assert.rejects(none, (error: unknown) => error instanceof Anthropic.NotFoundError);
    const other = new Anthropic({ ...options, apiKey: 'wrong' });
    const wrong = other.messages.create(asked('Hello'));
    await assert.rejects(wrong, (error: unknown) => error instanceof Anthropic.AuthenticationError);
  },
  async broken() {
    const stream = client.messages.stream(asked('/fail Hello'));
    await assert.rejects(
      stream.finalMessage(),
      (error: unknown) => error instanceof Anthropic.APIError,
    );
  },
};

for (const [step, run] of Object.entries(steps)) {
  const beginMs = performance.now();
  const error = await run().then(() => undefined, String);
  const told = { step, ok: error === undefined, ms: performance.now() - beginMs, error };
  console.log(JSON.stringify(told));
}
console.log(JSON.stringify({ step: 'end', ok: true, ms: 0 }));
