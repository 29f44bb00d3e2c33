/**
 * Makes embeddings and asks about an image through the Node SDK named on the command line; prints one JSON line a step.
 * It must never import anything of the service.
 */
import assert from 'node:assert/strict';
import type OpenAI from 'openai';

const [packageName = 'openai'] = process.argv.slice(2);
const { default: sdk } = (await import(packageName)) as { default: typeof OpenAI };
const client = new sdk({
  baseURL: `${process.env.ECHO_URL}`,
  apiKey: `${process.env.API_KEY}`,
  timeout: 30_000,
});
const model = 'text-embedding-3-small';
const input = ['a quay at dawn', 'seven cranes'];
const say = (step: string) =>
  process.stdout.write(`${JSON.stringify({ step, ok: true, ms: 0 })}\n`);

const made = await client.embeddings.create({ model, input });
assert.equal(made.data.length, 2);
assert.equal(made.data[0]?.embedding.length, 64);
assert.equal(made.usage.prompt_tokens, input.join('').length);
say('embeddings');

const floats = await client.embeddings.create({ model, input, encoding_format: 'float' });
for (const [at, { embedding }] of floats.data.entries()) {
  const other = made.data[at]?.embedding ?? [];
  assert.ok(embedding.every((number, place) => Math.abs(number - (other[place] ?? 9)) < 1e-6));
}
say('the same as floats');

const short = await client.embeddings.create({ model, input: input[0] ?? '', dimensions: 8 });
assert.equal(short.data[0]?.embedding.length, 8);
say('dimensions');

await assert.rejects(client.embeddings.create({ model: 'none', input }), { status: 404 });
await assert.rejects(client.embeddings.create({ model: 'seer', input }), { status: 400 });
say('errors');

const url = `data:image/png;base64,${process.env.IMAGE}`;
const answer = await client.chat.completions.create({
  model: 'seer',
  messages: [
    {
      role: 'user',
      content: [
        { type: 'text', text: 'What is it?' },
        { type: 'image_url', image_url: { url } },
      ],
    },
  ],
});
assert.equal(answer.choices[0]?.message.content?.trim(), 'What is it?');
say('an image');
say('end');
