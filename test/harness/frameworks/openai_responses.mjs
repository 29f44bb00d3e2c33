// Drives a running service through the OpenAI SDK's responses and conversations.
import assert from 'node:assert/strict';
import OpenAI from 'openai';

const client = new OpenAI({
  apiKey: process.env.API_KEY,
  baseURL: process.env.ECHO_URL,
  maxRetries: 0,
});
const model = 'svc-v1-8k';
const { responses, conversations } = client;

const steps = {
  'created, retrieved and deleted': async () => {
    const response = await responses.create({ model, input: 'Hello you' });
    assert.equal(response.output_text, 'Hello you');
    assert.equal((await responses.retrieve(response.id)).id, response.id);
    await responses.delete(response.id);
    await assert.rejects(responses.retrieve(response.id), OpenAI.NotFoundError);
  },
  streamed: async () => {
    const stream = responses.stream({ model, input: 'one two' });
    const deltas = [];
    stream.on('response.output_text.delta', ({ delta }) => deltas.push(delta));
    const { output_text: text } = await stream.finalResponse();
    assert.deepEqual([deltas, text], [['one ', 'two'], 'one two']);
  },
  'its input is listed': async () => {
    const input = ['0', '1', '2'].map((content) => ({ role: 'user', content }));
    const { id } = await responses.create({ model, input });
    const texts = [];
    for await (const item of responses.inputItems.list(id, { limit: 2, order: 'asc' })) {
      texts.push(item.content[0].text);
    }
    assert.deepEqual(texts, ['0', '1', '2']);
  },
  'cancelled in the background': async () => {
    const { id, status } = await responses.create({ model, input: '/wait', background: true });
    assert.equal(status, 'queued');
    assert.equal((await responses.cancel(id)).status, 'cancelled');
  },
  'a stream is taken up again': async () => {
    const events = [];
    const asked = { model, input: 'one two', background: true, stream: true };
    for await (const event of await responses.create(asked)) events.push(event);
    const again = [];
    const from = { stream: true, starting_after: 4 };
    for await (const event of await responses.retrieve(events[0].response.id, from)) {
      again.push(event);
    }
    assert.deepEqual(again, events.slice(5));
  },
  'a conversation': async () => {
    const { id } = await conversations.create({ metadata: { a: 'b' } });
    await responses.create({ model, conversation: id, input: 'one' });
    const second = await responses.create({ model, conversation: id, input: 'two' });
    assert.equal(second.conversation.id, id);
    const roles = [];
    for await (const { role } of conversations.items.list(id, { order: 'asc' })) roles.push(role);
    assert.deepEqual(roles, ['user', 'assistant', 'user', 'assistant']);
    await conversations.delete(id);
  },
  'a failure in mid-stream': async () => {
    const stream = await responses.create({ model, input: '/fail some words', stream: true });
    await assert.rejects(async () => {
      for await (const _ of stream);
    }, /echo engine was asked to fail/);
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
