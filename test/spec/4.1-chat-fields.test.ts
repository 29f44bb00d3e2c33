/**
 * §4.1 and §8, field by field: what is refused, in which words, and what is allowed at the very edge.
 */
import t from 'tap';
import { complete, type Fields, post, refusal, refused, said } from '../support/chat-client.js';
import { openService } from '../support/service.js';

const service = await openService(t);

const tool = (name: string, more: Fields = {}) => ({
  type: 'function',
  function: { name, ...more },
});
const user = (content: unknown, more: Fields = {}) => ({ role: 'user', content, ...more });
const call = { id: 'c', type: 'function', function: { name: 'a', arguments: '{}' } };
const image = (url: string) => ({ type: 'image_url', image_url: { url } });
const schema = (name: string, body?: unknown) => ({
  type: 'json_schema',
  json_schema: { name, ...(body === undefined ? {} : { schema: body }) },
});

const empty = (role: string) => `the message at position 0 with role '${role}' must not be empty`;
const roles = `'system', 'developer', 'user', 'assistant', 'tool'`;
const partialRule = `messages[0].partial may be true only on the last message and with role 'assistant'`;
const count = 'must be an integer of at least 1';
const chance = 'must be a number in [0, 1]';
const penalty = 'must be a number in [-2, 2]';
const toolName = 'tools[0].function.name must match ^[a-zA-Z_][a-zA-Z0-9_-]{0,63}$';
const seed = 'must be an integer';

/** Field → value that is refused, and what is said of it. */
const refusals: Readonly<Record<string, readonly (readonly [unknown, string])[]>> = {
  model: [
    [undefined, 'model is required'],
    [null, 'model must be a string, got null'],
    [1, 'model must be a string, got 1'],
    ['', 'model must not be empty'],
  ],
  messages: [
    [undefined, 'messages is required'],
    [null, 'messages must be an array, got null'],
    [{}, 'messages must be an array, got an object'],
    ['hello', `messages must be an array, got 'hello'`],
    [[], 'messages must not be empty'],
    [[1], 'messages[0] must be an object, got 1'],
    [[null], 'messages[0] must be an object, got null'],
    [[user('x'), []], 'messages[1] must be an object, got an empty array'],
    [[{ content: 'x' }], 'messages[0].role is required'],
    [[{ role: 'robot', content: 'x' }], `messages[0].role must be one of ${roles}, got 'robot'`],
    [[{ role: 7, content: 'x' }], `messages[0].role must be one of ${roles}, got 7`],
    [[{ role: 'user' }], 'messages[0].content is required'],
    [[user('')], empty('user')],
    [[user(null)], empty('user')],
    [[user([])], empty('user')],
    [[user([{ type: 'text', text: '' }])], empty('user')],
    [[{ role: 'system', content: '' }], empty('system')],
    [[{ role: 'assistant', content: '' }], empty('assistant')],
    [[{ role: 'assistant', content: '', tool_calls: [] }], empty('assistant')],
    [[user(1)], 'messages[0].content must be a string or an array, got 1'],
    [[user({ text: 'x' })], 'messages[0].content must be a string or an array, got an object'],
    [[user([{ type: 'text' }])], 'messages[0].content[0].text is required'],
    [
      [user([{ type: 'audio' }])],
      `messages[0].content[0].type must be one of 'text', 'image_url', got 'audio'`,
    ],
    [
      [user([image('https://a.example/b.png')])],
      `messages[0].content[0].image_url.url must be a data URL of an image in base64, got 'https://a.example/b.png'`,
    ],
    [
      [user([image('data:image/png;base64,AAAA')])],
      "messages[0].content[0] is an image, and the model 'svc-v1-8k' takes text only; no model here sees: one of an upstream can, a local one cannot yet",
    ],
    [[user('x', { name: 1 })], 'messages[0].name must be a string, got 1'],
    [[user('x', { partial: true })], `${partialRule}, got role 'user' at position 0 of 1`],
    [
      [{ role: 'assistant', content: 'x', partial: true }, user('x')],
      `${partialRule}, got role 'assistant' at position 0 of 2`,
    ],
    [[{ role: 'tool', content: 'x' }], 'messages[0].tool_call_id is required'],
    [
      [{ role: 'tool', content: 'x', tool_call_id: 'c' }],
      `the message at position 0 with role 'tool' must follow an assistant message whose tool_calls carry its tool_call_id, got 'c'`,
    ],
    [
      [user('x'), { role: 'assistant', tool_calls: [{ ...call, function: { name: 'a' } }] }],
      'messages[1].tool_calls[0].function.arguments is required',
    ],
    [Array(4097).fill(user('x')), 'messages must have at most 4096 items, got 4097'],
  ],
  max_tokens: [
    ['1', `max_tokens ${count}, got '1'`],
    [0, `max_tokens ${count}, got 0`],
    [-1, `max_tokens ${count}, got -1`],
    [1.5, `max_tokens ${count}, got 1.5`],
    [true, `max_tokens ${count}, got true`],
  ],
  max_completion_tokens: [
    ['1', `max_completion_tokens ${count}, got '1'`],
    [0, `max_completion_tokens ${count}, got 0`],
  ],
  temperature: [
    ['0', `temperature ${chance}, got '0'`],
    [-0.1, `temperature ${chance}, got -0.1`],
    [1.1, `temperature ${chance}, got 1.1`],
    [2, `temperature ${chance}, got 2`],
    [true, `temperature ${chance}, got true`],
    [[], `temperature ${chance}, got an empty array`],
  ],
  top_p: [
    ['1', `top_p must be a number in [0, 1], got '1'`],
    [-0.5, 'top_p must be a number in [0, 1], got -0.5'],
    [1.01, 'top_p must be a number in [0, 1], got 1.01'],
  ],
  n: [
    ['1', `n must be an integer in [1, 5], got '1'`],
    [0, 'n must be an integer in [1, 5], got 0'],
    [6, 'n must be an integer in [1, 5], got 6'],
    [1.5, 'n must be an integer in [1, 5], got 1.5'],
    [2, 'n must be 1 when temperature is below 0.01, got n 2 with temperature 0'],
  ],
  presence_penalty: [
    ['0', `presence_penalty ${penalty}, got '0'`],
    [2.1, `presence_penalty ${penalty}, got 2.1`],
    [-2.1, `presence_penalty ${penalty}, got -2.1`],
  ],
  frequency_penalty: [
    ['0', `frequency_penalty ${penalty}, got '0'`],
    [2.1, `frequency_penalty ${penalty}, got 2.1`],
    [-2.1, `frequency_penalty ${penalty}, got -2.1`],
  ],
  stop: [
    [1, 'stop must be a string or an array, got 1'],
    ['', 'stop must not be empty'],
    [[''], 'stop[0] must not be empty'],
    [[1], 'stop[0] must be a string, got 1'],
    [['a', 'b', 'c', 'd', 'e', 'f'], 'stop must have at most 5 items, got 6'],
    [
      'x'.repeat(33),
      `stop must have at most 32 bytes in UTF-8, got '${'x'.repeat(33)}' (33 bytes)`,
    ],
    ['é'.repeat(17), 'stop must have at most 32 bytes in UTF-8, got 34'],
    [['a', '😀'.repeat(9)], 'stop[1] must have at most 32 bytes in UTF-8, got 36'],
  ],
  stream: [
    ['true', `stream must be a boolean, got 'true'`],
    [1, 'stream must be a boolean, got 1'],
  ],
  stream_options: [
    ['x', `stream_options must be an object, got 'x'`],
    [{ include_usage: 1 }, 'stream_options.include_usage must be a boolean, got 1'],
  ],
  tools: [
    [{}, 'tools must be an array, got an object'],
    [[1], 'tools[0] must be an object, got 1'],
    [[{}], 'tools[0].type is required'],
    [[{ type: 'function' }], 'tools[0].function is required'],
    [[{ ...tool('a'), type: 'web' }], `tools[0].type must be 'function', got 'web'`],
    [[{ type: 'function', function: {} }], 'tools[0].function.name is required'],
    [[tool('1a')], `${toolName}, got '1a'`],
    [[tool('a b')], `${toolName}, got 'a b'`],
    [[tool('ä')], `${toolName}, got 'ä'`],
    [[tool('a'.repeat(65))], `${toolName}, got '${'a'.repeat(40)}…'`],
    [[tool('a'), tool('a')], `tools[1].function.name must be unique, got 'a' at positions 0 and 1`],
    [Array.from(Array(129), (_, i) => tool(`t${i}`)), 'tools must have at most 128 items, got 129'],
    [[tool('a', { description: 1 })], 'tools[0].function.description must be a string, got 1'],
    [
      [tool('a', { parameters: [] })],
      'tools[0].function.parameters must be an object, got an empty array',
    ],
    [
      [tool('a', { strict: true, parameters: { type: 'string' } })],
      `tools[0].function.parameters.type must be 'object', got 'string'`,
    ],
  ],
  tool_choice: [
    ['x', `tool_choice must be one of 'auto', 'none', 'required' or an object, got 'x'`],
    [{}, 'tool_choice.type is required'],
    ['required', `tool_choice 'required' needs at least one tool, got none`],
    [tool('b'), `tool_choice.function.name must be the name of one of the tools, got 'b'`],
  ],
  response_format: [
    ['json', `response_format must be an object, got 'json'`],
    [{}, 'response_format.type is required'],
    [
      { type: 'xml' },
      `response_format.type must be one of 'text', 'json_object', 'json_schema', got 'xml'`,
    ],
    [{ type: 'json_schema' }, 'response_format.json_schema is required'],
    [schema('a', 5), 'response_format.json_schema.schema must be an object, got 5'],
    [
      schema('a b', {}),
      `response_format.json_schema.name must match ^[a-zA-Z0-9_-]{1,64}$, got 'a b'`,
    ],
  ],
  seed: [
    ['1', `seed ${seed}, got '1'`],
    [1.5, `seed ${seed}, got 1.5`],
  ],
  logprobs: [['true', `logprobs must be a boolean, got 'true'`]],
  top_logprobs: [
    [21, 'top_logprobs must be an integer in [0, 20], got 21'],
    [3, 'top_logprobs needs logprobs to be true, got logprobs nothing'],
  ],
};

for (const [field, rows] of Object.entries(refusals)) {
  t.test(`${field}: refused with its name and what is allowed`, async (t) => {
    for (const [value, details] of rows) {
      await refused(t, service, said('x', { [field]: value }), `Invalid request: ${details}`);
    }
  });
}

t.test('what is refused is refused in a stream too, as a plain answer', async (t) => {
  const response = await post(service, said('x', { stream: true, temperature: 2 }));
  const found = await refusal(t, response);
  t.equal(found.message, `Invalid request: temperature ${chance}, got 2`);
});

t.test('rules over two fields', async (t) => {
  await refused(
    t,
    service,
    said('x', { n: 5, temperature: 0.009 }),
    'Invalid request: n must be 1 when temperature is below 0.01, got n 5 with temperature 0.009',
  );
  await refused(
    t,
    service,
    said('x', { max_tokens: 1, max_completion_tokens: 2 }),
    'Invalid request: max_tokens and max_completion_tokens mean the same and must not differ, got 1 and 2',
  );
});

const edges: Readonly<Record<string, readonly unknown[]>> = {
  max_tokens: [1, 8171, null],
  max_completion_tokens: [1, null],
  temperature: [0, 1, 0.5, null],
  top_p: [1, 0.0001, 0, null],
  n: [1, null],
  presence_penalty: [-2, 2, 0.5, null],
  frequency_penalty: [-2, 2, 0.5, null],
  stop: [null, [], 'y'.repeat(32), 'é'.repeat(16), ['1', '2', '3', '4', '5']],
  stream: [false, null],
  stream_options: [null, {}, { include_usage: null }],
  tools: [
    null,
    [],
    [tool('a_-9'.repeat(16))],
    [tool('a', { description: null, parameters: null })],
  ],
  tool_choice: [null, 'auto', 'none'],
  response_format: [null, { type: 'text' }],
  seed: [null, 0, -1, Number.MAX_SAFE_INTEGER, 2 ** 64],
  logprobs: [null, false],
  user: ['someone', null],
  ignore_eos: [true],
  continuous_usage_stats: [true],
  repetition_penalty: [1.1],
  anything_else: [{ deep: [1] }],
};

t.test('the edges, null for absent, and fields nobody knows are taken', async (t) => {
  for (const [field, values] of Object.entries(edges)) {
    for (const value of values) {
      const answer = await complete(service, said('Hi', { [field]: value }));
      t.equal(answer.choices.length, 1, `${field} ${JSON.stringify(value)}`);
    }
  }
  const five = await complete(service, said('Hi', { n: 5, temperature: 0.01 }));
  t.equal(five.choices.length, 5, 'n 5 with a temperature that is not very close to 0');
  const tools = Array.from(Array(128), (_, i) => tool(`t${i}`));
  t.ok(await complete(service, { ...said('Hi', { tools }), model: 'svc-v1-32k' }));
});
