/**
 * §4.1 and §2.7: tools, calls, results and JSON formats, on an engine that says what it is told.
 */
import t from 'tap';
import {
  chunks,
  complete,
  type Fields,
  model,
  openProbe,
  openWithSettings,
  pieces,
  post,
  refusal,
  said,
} from '../support/chat-client.js';
import { openService } from '../support/service.js';

const service = await openService(t);
const probe = await openProbe(t);

const weather = {
  type: 'function',
  function: {
    name: 'get_weather',
    description: 'The weather of a place',
    parameters: {
      type: 'object',
      properties: { place: { type: 'string', enum: ['Rome', 'Köln'] } },
    },
  },
};
const callText =
  '<tool_call>{"name":"get_weather","arguments":{"place": "Köln", "big": 12345678901234567890}}';
const callArguments = '{"place": "Köln", "big": 12345678901234567890}';
const withTools = (content: string, more: Fields = {}) =>
  said(content, { tools: [weather], ...more });

t.test('a call is taken out of the text and told as such', async (t) => {
  const answer = await complete(service, withTools(callText));
  const [choice] = answer.choices;
  t.match(choice, { index: 0, message: { role: 'assistant', content: '' } });
  t.equal(choice?.finish_reason, 'tool_calls');
  const [call] = choice?.message.tool_calls ?? [];
  t.match(call?.id, /^call_\w+$/);
  t.same(call, {
    id: call?.id,
    type: 'function',
    function: { name: 'get_weather', arguments: callArguments },
  });
});

t.test('text before a call stays text', async (t) => {
  const answer = await complete(service, withTools(`Let me see. ${callText}`));
  t.match(answer.choices, [{ message: { content: 'Let me see. ' }, finish_reason: 'tool_calls' }]);
  t.equal(answer.choices[0]?.message.tool_calls?.length, 1);
});

t.test(
  'a call in a stream: id and name first, then arguments, none of it as content',
  async (t) => {
    for (const each of [service, probe]) {
      const say = each === probe ? '/bytes ' : '';
      const stream = await chunks(each, withTools(`${say}Well. ${callText}`));
      t.equal(pieces(stream).join(''), 'Well. ', 'the mark of a call is never shown');
      const deltas = stream.flatMap(({ choices }) => choices[0]?.delta.tool_calls ?? []);
      t.match(deltas[0], {
        index: 0,
        id: /^call_/,
        type: 'function',
        function: { name: 'get_weather' },
      });
      t.ok(deltas.every(({ index }) => index === 0));
      t.ok(deltas.slice(1).every((delta) => delta.id === undefined));
      t.equal(deltas.map(({ function: { arguments: text } }) => text).join(''), callArguments);
      t.equal(stream.at(-1)?.choices[0]?.finish_reason, 'tool_calls');
    }
  },
);

t.test('without tools, or with tool_choice none, the same text is only text', async (t) => {
  const plain = '<tool_call>{"name":"get_weather","arguments":{}}';
  for (const more of [{}, { tools: [] }, { tools: [weather], tool_choice: 'none' }]) {
    const answer = await complete(service, said(plain, more));
    t.match(answer.choices, [{ message: { content: plain }, finish_reason: 'stop' }]);
    t.notOk('tool_calls' in (answer.choices[0]?.message ?? {}));
  }
});

t.test('a call that max_tokens cut short is a call with the arguments there are', async (t) => {
  const asked = withTools(callText, { max_tokens: 70 });
  const answer = await complete(service, asked);
  t.equal(answer.choices[0]?.finish_reason, 'length');
  t.equal(answer.choices[0]?.message.content, '');
  const [call] = answer.choices[0]?.message.tool_calls ?? [];
  t.same(call?.function, { name: 'get_weather', arguments: '{"place": "K\u00f6ln", "big":' });
});

t.test('arguments are streamed while they are generated', async (t) => {
  const stream = await chunks(probe, withTools(`/bytes ${callText}`));
  const deltas = stream.flatMap(({ choices }) => choices[0]?.delta.tool_calls ?? []);
  t.ok(deltas.length > 20, `${deltas.length} pieces`);
});

t.test('several calls in one answer', async (t) => {
  const one = '{"name":"get_weather","arguments":{"place":"Rome"}}';
  const text = `<tool_call>${one}</tool_call>\n<tool_call>${one}</tool_call>`;
  const answer = await complete(service, withTools(text));
  const calls = answer.choices[0]?.message.tool_calls ?? [];
  t.same(
    calls.map(({ function: each }) => each.arguments),
    ['{"place":"Rome"}', '{"place":"Rome"}'],
  );
  t.equal(new Set(calls.map(({ id }) => id)).size, 2);
  const stream = await chunks(service, withTools(text));
  const deltas = stream.flatMap(({ choices }) => choices[0]?.delta.tool_calls ?? []);
  t.same(
    deltas.filter(({ id }) => id !== undefined).map(({ index }) => index),
    [0, 1],
  );
});

/** It shows tools, and several calls of one message. */
const TEMPLATE = `
{%- if tools -%}{{ '<|im_start|>system\\n' + (tools | tojson) + '<|im_end|>\\n' }}{%- endif -%}
{%- for message in messages -%}
{{ '<|im_start|>' + message.role + '\\n' + (message.content or '') }}
{%- for call in message.tool_calls or [] -%}
{{ '<tool_call>' + (call.function | tojson) + '</tool_call>\\n' }}
{%- endfor -%}
{{ '<|im_end|>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\\n' }}{%- endif -%}
`.trim();

t.test('several calls that are asked for', async (t) => {
  const echo = { engine: 'echo', tokenizer: 'bytes', window: 8192, template: TEMPLATE };
  const own = await openWithSettings(t, { models: { 'svc-v1-8k': echo } });
  const one = '{"name":"get_weather","arguments":{"place":"Rome"}}';
  const two = one.replace('Rome', 'Köln');
  const text = `<tool_call>${one}</tool_call>\n<tool_call>${two}</tool_call>`;
  const placesOf = async (more: Fields) => {
    const { choices } = await complete(own, withTools(text, more));
    t.equal(choices[0]?.finish_reason, 'tool_calls');
    return choices[0]?.message.tool_calls?.map((call) => call.function.arguments) ?? [];
  };
  const both = ['{"place":"Rome"}', '{"place":"Köln"}'];
  t.same(await placesOf({ tool_choice: 'required' }), both);
  t.same(await placesOf({ tool_choice: 'auto' }), both);
  for (const more of [
    { tool_choice: 'required', parallel_tool_calls: false },
    { tool_choice: { type: 'function', function: { name: 'get_weather' } } },
  ]) {
    t.equal((await placesOf(more)).length, 1, JSON.stringify(more));
  }
  const stream = await chunks(own, withTools(text, { tool_choice: 'required' }));
  const deltas = stream.flatMap(({ choices }) => choices[0]?.delta.tool_calls ?? []);
  const begun = deltas.filter(({ id }) => id !== undefined);
  t.same(
    begun.map(({ index, function: each }) => [index, each?.name]),
    [
      [0, 'get_weather'],
      [1, 'get_weather'],
    ],
  );
});

t.test('schemas of every kind are accepted where they are not strict', async (t) => {
  const odd = [
    { type: 'object', properties: { p: { type: 'string', pattern: '^(a)\\1$', format: 'iban' } } },
    { type: 'object', properties: { p: { uniqueItems: true, items: {}, not: {} } }, 'x-order': 1 },
    { type: 'object', properties: { p: { $ref: 'https://example.com/p.json' } } },
    { type: 'string' },
    { properties: { p: 5 }, required: 'p' },
    {},
  ];
  for (const parameters of odd) {
    const tools = [{ type: 'function', function: { name: 'f', parameters } }];
    for (const tool_choice of ['auto', 'required']) {
      const answer = await complete(service, said('Hi', { tools, tool_choice }));
      const calls = answer.choices[0]?.message.tool_calls?.length ?? 0;
      t.equal(calls, tool_choice === 'required' ? 1 : 0, JSON.stringify(parameters));
    }
    const json_schema = { name: 'n', schema: parameters };
    t.equal(
      (await post(service, said('{}', { response_format: { type: 'json_schema', json_schema } })))
        .status,
      200,
    );
    const cache = { model: 'svc-v1', messages: [], tools };
    const created = await service.call('POST', '/caching', cache);
    t.equal(created.status, 200, `as a cache: ${JSON.stringify(parameters)}`);
  }
});

t.test('tools and a JSON format: a call or the JSON', async (t) => {
  const schema = {
    type: 'object',
    properties: { n: { type: 'integer', minimum: 3 } },
    required: ['n'],
  };
  const response_format = { type: 'json_schema', json_schema: { name: 'n', schema } };
  const more = { response_format };
  const [value, call, other] = await Promise.all([
    complete(service, withTools('{"n": 5}', more)),
    complete(service, withTools(callText, more)),
    complete(service, withTools('Neither of them', more)),
  ]);
  t.match(value.choices, [{ message: { content: '{"n": 5}' }, finish_reason: 'stop' }]);
  t.match(call.choices, [{ message: { content: '' }, finish_reason: 'tool_calls' }]);
  t.match(other.choices, [{ message: { content: '{"n":3}' }, finish_reason: 'stop' }]);
});

t.test('the echo engine makes the smallest call and JSON that fit', async (t) => {
  const parameters = {
    type: 'object',
    properties: {
      place: { type: 'string', pattern: '^[A-Z][a-z]{2}$' },
      days: { type: 'integer', minimum: 2 },
      unit: { $ref: '#/$defs/unit' },
    },
    required: ['place', 'days', 'unit'],
    $defs: { unit: { enum: ['c', 'f'] } },
  };
  const tools = [weather, { type: 'function', function: { name: 'forecast', parameters } }];
  const tool_choice = { type: 'function', function: { name: 'forecast' } };
  const answer = await complete(service, said('What now?', { tools, tool_choice }));
  t.same(answer.choices[0]?.message.tool_calls?.[0]?.function, {
    name: 'forecast',
    arguments: '{"place":"Aaa","days":2,"unit":"c"}',
  });
});

t.test('only functions that are allowed are called, and the prompt is the same', async (t) => {
  const tools = [weather, { type: 'function', function: { name: 'forecast' } }];
  const allowed = {
    mode: 'required',
    tools: [{ type: 'function', function: { name: 'forecast' } }],
  };
  const tool_choice = { type: 'allowed_tools', allowed_tools: allowed };
  const answer = await complete(service, said('What now?', { tools, tool_choice }));
  t.match(answer.choices[0]?.message.tool_calls, [{ function: { name: 'forecast' } }]);
  const all = await complete(service, said('What now?', { tools, tool_choice: 'required' }));
  t.equal(answer.usage.prompt_tokens, all.usage.prompt_tokens);
});

t.test('an endless answer, and one that is not too short', async (t) => {
  const endless = await complete(service, said('ab ', { ignore_eos: true, max_tokens: 10 }));
  t.match(endless, { choices: [{ finish_reason: 'length' }], usage: { completion_tokens: 10 } });
  const short = await complete(service, said('ab ', { min_tokens: 5, max_tokens: 10 }));
  t.match(short, { choices: [{ finish_reason: 'stop' }], usage: { completion_tokens: 6 } });
});

t.test('a forced call is read from the first token on', async (t) => {
  const callOnly = '{"name":"get_weather","arguments":{"place":"Rome"}}';
  const choices = ['required', { type: 'function', function: { name: 'get_weather' } }];
  for (const tool_choice of choices) {
    const answer = await complete(service, withTools(callOnly, { tool_choice }));
    t.match(answer.choices, [
      {
        message: {
          content: '',
          tool_calls: [{ function: { name: 'get_weather', arguments: '{"place":"Rome"}' } }],
        },
        finish_reason: 'tool_calls',
      },
    ]);
  }
});

const conversation = (result: Fields) => ({
  model,
  tools: [weather],
  messages: [
    { role: 'user', content: 'Weather in Köln?' },
    {
      role: 'assistant',
      content: '',
      tool_calls: [
        {
          id: 'call_1',
          type: 'function',
          function: { name: 'get_weather', arguments: '{"place":"Köln"}' },
        },
      ],
    },
    { role: 'tool', tool_call_id: 'call_1', content: 'sunny, 21 degrees', ...result },
  ],
});

t.test('the result of a call goes back to the model', async (t) => {
  const answer = await complete(service, conversation({}));
  t.match(answer.choices[0]?.message.content, /sunny, 21 degrees/);
  t.equal(answer.choices[0]?.finish_reason, 'stop');
});

t.test('beside calls an assistant message may be without content', async (t) => {
  const { messages, ...rest } = conversation({});
  const counts = await Promise.all(
    ['', null, undefined].map(async (content) => {
      const edited = messages.map((each) =>
        each.role === 'assistant' ? { ...each, content } : each,
      );
      return (await complete(service, { ...rest, messages: edited })).usage.prompt_tokens;
    }),
  );
  t.equal(new Set(counts).size, 1, `${counts}`);
});

t.test('a result may be empty', async (t) => {
  for (const content of ['', null, undefined, []]) {
    const answer = await complete(service, conversation({ content }));
    t.equal(answer.choices[0]?.finish_reason, 'stop', String(content));
  }
});

t.test('a result must answer a call that was made', async (t) => {
  const found = await refusal(t, await post(service, conversation({ tool_call_id: 'call_2' })));
  t.match(found, { status: 400, type: 'invalid_request_error', param: 'messages[2].tool_call_id' });
});

t.test('each choice makes its own call', async (t) => {
  const answer = await complete(service, withTools(callText, { n: 3, temperature: 1 }));
  const ids = answer.choices.map(({ message }) => message.tool_calls?.[0]?.id);
  t.equal(new Set(ids).size, 3);
});

t.test('JSON formats are taken, whole and streamed', async (t) => {
  const text = '{"a": [1, "ü"]}';
  const formats = [
    { type: 'json_object' },
    { type: 'json_schema', json_schema: { name: 'a', schema: { type: 'object' }, strict: true } },
  ];
  for (const response_format of formats) {
    const answer = await complete(service, said(text, { response_format }));
    t.match(answer.choices, [{ message: { content: text }, finish_reason: 'stop' }]);
    t.equal(pieces(await chunks(service, said(text, { response_format }))).join(''), text);
  }
});
