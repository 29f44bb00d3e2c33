/** Owns the proof that a Messages request becomes the chat it means, and that its answer has the form its clients read. */
import t from 'tap';
import { ApiError } from '../../src/errors.js';
import type { ChatRequest } from '../../src/protocol/chat.js';
import { type Choice, JsonPieces, type Usage } from '../../src/protocol/completion.js';
import { parseCountTokens, parseMessagesRequest } from '../../src/protocol/messages.js';
import { MessagesAnswer, messagesReplySchema } from '../../src/protocol/messages-answer.js';
import { messagesError, messagesErrorSchema } from '../../src/protocol/messages-errors.js';
import { compile } from '../../src/protocol/schema.js';

type Fields = Readonly<Record<string, unknown>>;

const kept = { type: 'ephemeral' };
const hi = { role: 'user', content: 'Hi' };
const body = (fields: Fields): Fields => ({
  model: 'svc-v1-8k',
  max_tokens: 100,
  messages: [hi],
  ...fields,
});
const parsed = (fields: Fields): ChatRequest => parseMessagesRequest(body(fields));
const text = (words: string, more: Fields = {}): Fields => ({ type: 'text', text: words, ...more });
const use = { type: 'tool_use', id: 'toolu_1', name: 'f', input: { a: 1 } };
const result = (content: unknown, more: Fields = {}): Fields => ({
  type: 'tool_result',
  tool_use_id: 'toolu_1',
  content,
  ...more,
});
const tool = { name: 'f', description: 'F', input_schema: { type: 'object', properties: {} } };

t.test('settings', async (t) => {
  t.match(parsed({}), {
    maxTokens: 100,
    temperature: 0,
    topP: 1,
    choices: 1,
    stream: false,
    toolChoice: { type: 'none' },
    cutsMaxTokens: true,
    marks: [],
  });
  const all = { temperature: 0.5, top_p: 0.9, stop_sequences: ['a'], stream: true };
  t.match(parsed(all), { temperature: 0.5, topP: 0.9, stop: ['a'], stream: true });
  t.match(parsed({ top_k: 40 }).extras, { topK: 40 });
  t.match(parsed({ thinking: { type: 'enabled', budget_tokens: 2000 } }).templateArgs, {
    enable_thinking: true,
  });
  const least = { thinking: { type: 'disabled' }, output_config: { effort: 'low' } };
  t.match(parsed(least).templateArgs, { enable_thinking: false, reasoning_effort: 'low' });
  const ignored = { metadata: { user_id: 'u' }, service_tier: 'auto', context_management: {} };
  t.match(parsed(ignored).wireMessages, [hi]);
  const format = { type: 'json_schema', schema: { type: 'object' } };
  t.match(parsed({ output_config: { format } }).responseFormat, {
    type: 'json_schema',
    schema: { type: 'object' },
    strict: true,
  });
});

t.test('a JSON format has an older place, with the same meaning', async (t) => {
  const format = { type: 'json_schema', schema: { type: 'object', properties: { a: {} } } };
  const config = { output_config: { format } };
  t.same(parsed({ output_format: format }).responseFormat, parsed(config).responseFormat);
  t.same(
    parsed({ output_format: format, ...config }).responseFormat,
    parsed(config).responseFormat,
  );
  t.same(parsed({ output_format: null, ...config }).responseFormat, parsed(config).responseFormat);
  const least = { output_format: format, output_config: { effort: 'low' } };
  t.match(parsed(least), {
    responseFormat: { schema: format.schema },
    templateArgs: { reasoning_effort: 'low' },
  });
});

t.test('tools and the choice among them', async (t) => {
  const choice = (tool_choice?: Fields) => {
    const { toolChoice, parallelToolCalls } = parsed({ tools: [tool], tool_choice });
    return [toolChoice, parallelToolCalls];
  };
  t.match(parsed({ tools: [tool] }).tools, [
    { name: 'f', description: 'F', parameters: tool.input_schema },
  ]);
  t.same(choice(), [{ type: 'auto' }, true]);
  t.same(choice({ type: 'auto', disable_parallel_tool_use: true }), [{ type: 'auto' }, false]);
  t.same(choice({ type: 'any' }), [{ type: 'required' }, true]);
  t.same(choice({ type: 'none' }), [{ type: 'none' }, true]);
  t.same(choice({ type: 'tool', name: 'f' }), [{ type: 'function', name: 'f' }, true]);
});

const turns: readonly [name: string, fields: Fields, messages: readonly Fields[]][] = [
  ['a system text comes first', { system: 'S' }, [{ role: 'system', content: 'S' }, hi]],
  ['one block is its text', { messages: [{ role: 'user', content: [text('Hi')] }] }, [hi]],
  [
    'blocks of a turn are parts of one message, joined by a newline',
    { system: [text('a'), text('b\n'), text('c')] },
    [{ role: 'system', content: [text('a'), text('\nb\n'), text('c')] }, hi],
  ],
  [
    'turns of one role are one',
    { messages: [hi, { role: 'user', content: 'there' }] },
    [{ role: 'user', content: [text('Hi'), text('\nthere')] }],
  ],
  [
    'a call and its result',
    {
      messages: [
        hi,
        { role: 'assistant', content: [text('Let me'), use] },
        { role: 'user', content: [result([text('one'), text('two')]), text('And?')] },
      ],
    },
    [
      hi,
      {
        role: 'assistant',
        content: 'Let me',
        tool_calls: [
          { id: 'toolu_1', type: 'function', function: { name: 'f', arguments: '{"a":1}' } },
        ],
      },
      { role: 'tool', tool_call_id: 'toolu_1', content: 'one\ntwo' },
      { role: 'user', content: 'And?' },
    ],
  ],
  [
    'a failed call and an empty result',
    {
      messages: [
        { role: 'assistant', content: [use] },
        { role: 'user', content: [result('no', { is_error: true }), result(undefined)] },
      ],
    },
    [
      { role: 'assistant', content: '' },
      { role: 'tool', content: 'Error: no' },
      { role: 'tool', content: '' },
    ],
  ],
  [
    'the answer goes on from a last message of the assistant',
    { messages: [hi, { role: 'assistant', content: 'Once' }] },
    [hi, { role: 'assistant', content: 'Once', partial: true }],
  ],
  [
    'a document of plain text',
    {
      messages: [
        {
          role: 'user',
          content: [{ type: 'document', title: 'T', source: { type: 'text', data: 'D' } }],
        },
      ],
    },
    [{ role: 'user', content: 'T\nD' }],
  ],
];

t.test('the conversation', async (t) => {
  for (const [name, fields, messages] of turns) {
    t.match(parsed(fields).wireMessages, messages, name);
    t.equal(parsed(fields).wireMessages.length, messages.length, name);
    const { max_tokens: _none, ...counted } = body(fields);
    t.same(parseCountTokens(counted).messages, parsed(fields).messages, `${name}: counted alike`);
  }
});

t.test('a mark never changes the conversation', async (t) => {
  const plain = parsed({ system: [text('a'), text('b')], tools: [tool] });
  const marked = parsed({
    system: [text('a', { cache_control: kept }), text('b', { cache_control: kept })],
    tools: [{ ...tool, cache_control: kept }],
    cache_control: { type: 'ephemeral', ttl: '1h' },
  });
  t.same(marked.wireMessages, plain.wireMessages);
  t.same(marked.wireTools, plain.wireTools);
  t.same(marked.marks, [
    { messages: 0, parts: null, ttlS: 300 },
    { messages: 0, parts: 1, ttlS: 300 },
    { messages: 1, parts: null, ttlS: 300 },
    { messages: 2, parts: null, ttlS: 3600 },
  ]);
  t.same(marked.origins, ['system', 0]);
});

t.test('marks inside a turn, on a result and on what the assistant said', async (t) => {
  const mark = { cache_control: kept };
  const { marks, origins } = parsed({
    messages: [
      { role: 'user', content: [text('doc', mark), text('question')] },
      { role: 'assistant', content: [text('said'), { ...use, ...mark }] },
      { role: 'user', content: [result('r', mark), text('more')] },
    ],
  });
  t.same(
    marks.map(({ messages, parts }) => [messages, parts]),
    [
      [0, 1],
      [2, null],
      [3, null],
    ],
  );
  t.same(origins, [0, 1, 2, 2]);
});

const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AA' } };

const refusals: readonly [fields: Fields, message: string, param: string][] = [
  [{ max_tokens: undefined }, 'max_tokens is required', 'max_tokens'],
  [{ temperature: 2 }, 'temperature must be a number in [0, 1], got 2', 'temperature'],
  [
    {
      messages: [
        { role: 'system', content: [text('x'), image] },
        { role: 'user', content: 'x' },
      ],
    },
    "messages[0].content[1].type must be 'text', got 'image'",
    'messages[0].content[1].type',
  ],
  [
    {
      messages: [
        { role: 'user', content: [{ type: 'image', source: { type: 'url', url: 'http://x' } }] },
      ],
    },
    "messages[0].content[0].source.type must be 'base64', got 'url'",
    'messages[0].content[0].source.type',
  ],
  [
    { tools: [{ type: 'web_search_20250305', name: 'web_search' }] },
    "tools[0].type must be 'custom', a tool that the client runs and describes, got 'web_search_20250305'",
    'tools[0].type',
  ],
  [
    { tools: [tool, tool] },
    "tools[1].name must be unique, got 'f' at positions 0 and 1",
    'tools[1].name',
  ],
  [
    { tools: [tool], tool_choice: { type: 'tool', name: 'g' } },
    "tool_choice.name must be the name of one of the tools, got 'g'",
    'tool_choice.name',
  ],
  [
    { messages: [{ role: 'user', content: [result('r')] }] },
    "messages[0].content[0].tool_use_id must be the id of a tool_use block before it, got 'toolu_1'",
    'messages[0].content[0].tool_use_id',
  ],
  [
    { messages: [{ role: 'user', content: [text('')] }] },
    'messages[0].content must not be empty',
    'messages[0].content',
  ],
  [
    { stop_sequences: ['é'.repeat(20)] },
    'stop_sequences[0] must have at most 32 bytes in UTF-8, got 40',
    'stop_sequences[0]',
  ],
  [
    {
      output_format: { type: 'json_schema', schema: { type: 'object' } },
      output_config: { format: { type: 'json_schema', schema: {} } },
    },
    'output_format must be absent or the same as output_config.format, got an object',
    'output_format',
  ],
  [
    { output_format: { type: 'json' } },
    "output_format.type must be 'json_schema', got 'json'",
    'output_format.type',
  ],
  [
    { output_format: { type: 'json_schema', schema: { properties: { a: 1 } } } },
    'output_format.schema.properties.a must be a JSON schema, got 1',
    'output_format.schema.properties.a',
  ],
  [
    { system: Array.from({ length: 5 }, () => text('x', { cache_control: kept })) },
    'a request must have at most 4 blocks with cache_control, got 5',
    'cache_control',
  ],
];

t.test('a refusal names the field as the client wrote it', async (t) => {
  for (const [fields, message, param] of refusals) {
    const refused = errorOf(() => parseMessagesRequest(JSON.parse(JSON.stringify(body(fields)))));
    t.equal(refused.message, `Invalid request: ${message}`);
    t.equal(refused.extra.param, param);
    t.notOk('details' in messagesError(refused, null).error);
  }
});

t.test('a thread is refused by the code at which SDKs send the whole conversation', async (t) => {
  const threads = [{ type: 'create' }, { type: 'continue', previous_message_id: 'msg_1' }];
  for (const thread of threads) {
    for (const parse of [parseMessagesRequest, parseCountTokens]) {
      // A turn that goes on may bring no message at all.
      const refused = errorOf(() => parse(body({ thread, messages: [] })));
      t.equal(refused.extra.param, 'thread');
      t.match(refused.message, /^Invalid request: thread must not be given/);
      const envelope = messagesError(refused, 'req_1');
      t.ok(compile(messagesErrorSchema)(envelope));
      t.match(envelope.error, {
        type: 'invalid_request_error',
        details: { error_code: 'thread_unsupported_request' },
      });
    }
  }
  t.match(parsed({ thread: null }).wireMessages, [hi]);
});

function errorOf(run: () => unknown): ApiError {
  try {
    run();
  } catch (cause) {
    if (cause instanceof ApiError) return cause;
  }
  throw new Error('it was not refused');
}

const head = { id: `msg_${'0a'.repeat(16)}`, createdS: 1, model: 'm' };
const answer = new MessagesAnswer(head, { windowBound: false, nowS: () => 0 });
const usage: Usage = {
  promptTokens: 100,
  completionTokens: 7,
  cachedTokens: 20,
  kept: { shortTokens: 30, longTokens: 40, missReason: null },
};
const wireUsage = {
  input_tokens: 10,
  cache_creation_input_tokens: 70,
  cache_read_input_tokens: 20,
  cache_creation: { ephemeral_5m_input_tokens: 30, ephemeral_1h_input_tokens: 40 },
  output_tokens: 7,
};
const call = { id: `toolu_${'ab'.repeat(12)}`, name: 'f', arguments: '{"n":12345678901234567890}' };
const choice = (fields: Partial<Choice>): Choice => ({
  content: 'Hello',
  toolCalls: [],
  reasoning: '',
  finishReason: 'stop',
  stopString: null,
  logprobs: null,
  ...fields,
});

const textOf = (form: MessagesAnswer, choices: readonly Choice[], usage: Usage) =>
  JsonPieces.textOf(form.whole(choices, usage)).toString();

t.test('a whole message', async (t) => {
  const whole = textOf(answer, [choice({ finishReason: 'tool_calls', toolCalls: [call] })], usage);
  t.ok(whole.includes('"input":{"n":12345678901234567890}'), 'as the model wrote it');
  const message = JSON.parse(whole) as Fields;
  t.ok(compile(messagesReplySchema)(message));
  t.match(message, {
    id: head.id,
    type: 'message',
    role: 'assistant',
    model: 'm',
    content: [
      { type: 'text', text: 'Hello' },
      { type: 'tool_use', id: call.id, name: 'f' },
    ],
    stop_reason: 'tool_use',
    stop_sequence: null,
    diagnostics: null,
    usage: wireUsage,
  });
  t.same(
    (message.content as readonly Fields[])[0],
    text('Hello'),
    'and nothing else: no citations',
  );
});

t.test('what the model thinks comes first, in a block of its own', async (t) => {
  const { content } = JSON.parse(textOf(answer, [choice({ reasoning: 'Hm' })], usage));
  t.match(content, [{ type: 'thinking', thinking: 'Hm', signature: '' }, { text: 'Hello' }]);
  const stream = answer.stream();
  const events = eventsOf(
    stream.reasoning(0, 'H') + stream.reasoning(0, 'm') + stream.content(0, 'Hello', null),
  );
  t.match(events, [
    { type: 'content_block_start', index: 0, content_block: { type: 'thinking', thinking: '' } },
    { index: 0, delta: { type: 'thinking_delta', thinking: 'H' } },
    { index: 0, delta: { type: 'thinking_delta', thinking: 'm' } },
    { type: 'content_block_stop', index: 0 },
    { type: 'content_block_start', index: 1, content_block: { type: 'text' } },
    { index: 1, delta: { type: 'text_delta', text: 'Hello' } },
  ]);
});

t.test('why it stopped', async (t) => {
  const reason = (fields: Partial<Choice>, windowBound = false) => {
    const form = new MessagesAnswer(head, { windowBound, nowS: () => 0 });
    const { stop_reason, stop_sequence } = JSON.parse(textOf(form, [choice(fields)], usage));
    return [stop_reason, stop_sequence];
  };
  t.same(reason({}), ['end_turn', null]);
  t.same(reason({ stopString: 'END' }), ['stop_sequence', 'END']);
  t.same(reason({ finishReason: 'length' }), ['max_tokens', null]);
  t.same(reason({ finishReason: 'length' }, true), ['model_context_window_exceeded', null]);
});

t.test('why nothing was reused', async (t) => {
  const typeOf = (missReason: string) => {
    const kept = { shortTokens: 0, longTokens: 0, missReason };
    const { diagnostics } = JSON.parse(textOf(answer, [choice({})], { ...usage, kept }));
    t.equal(diagnostics.cache_miss_reason.message, missReason);
    return diagnostics.cache_miss_reason.type;
  };
  t.equal(typeOf('tools has 0 items, the cache has 1 item'), 'tools_changed');
  t.equal(typeOf('system.content differs at character 3'), 'system_changed');
  t.equal(typeOf('messages[1].content differs at character 3'), 'messages_changed');
  t.equal(typeOf('the model is not of the family of the newest cache'), 'model_changed');
  t.equal(typeOf('the cache is not ready yet'), 'unavailable');
});

function eventsOf(text: string): Fields[] {
  return text
    .split('\n\n')
    .filter((frame) => frame !== '')
    .map((frame) => {
      const [, name, data = ''] = /^event: (\w+)\ndata: (.*)$/.exec(frame) ?? [];
      const event = JSON.parse(data) as Fields;
      t.equal(event.type, name, 'the event is named by its type');
      return event;
    });
}

t.test('a stream: text, then a call, each block with a start and a stop', async (t) => {
  const stream = answer.stream();
  const end = { finishReason: 'tool_calls', stopString: null } as const;
  const events = eventsOf(
    [
      stream.begin([0], { ...usage, completionTokens: 0 }),
      stream.content(0, 'Hel', null),
      stream.content(0, '', null),
      stream.content(0, 'lo', null),
      stream.call(0, { index: 0, id: call.id, name: 'f' }),
      stream.callArguments(0, 0, '{"n":'),
      stream.callArguments(0, 0, '1}'),
      stream.quiet(0),
      stream.call(0, { index: 1, id: call.id, name: 'g' }),
      stream.callArguments(0, 1, '{}'),
      stream.finish(0, end, usage),
      stream.total(usage),
      stream.end(),
    ].join(''),
  );
  t.match(events, [
    { type: 'message_start', message: { content: [], stop_reason: null } },
    { type: 'ping' },
    { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
    { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'Hel' } },
    { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'lo' } },
    { type: 'content_block_stop', index: 0 },
    {
      type: 'content_block_start',
      index: 1,
      content_block: { type: 'tool_use', id: call.id, name: 'f', input: {} },
    },
    { index: 1, delta: { type: 'input_json_delta', partial_json: '{"n":' } },
    { index: 1, delta: { type: 'input_json_delta', partial_json: '1}' } },
    { type: 'ping' },
    { type: 'content_block_stop', index: 1 },
    { type: 'content_block_start', index: 2, content_block: { name: 'g' } },
    { index: 2, delta: { partial_json: '{}' } },
    { type: 'content_block_stop', index: 2 },
    { type: 'message_delta', delta: { stop_reason: 'tool_use' }, usage: { output_tokens: 7 } },
    { type: 'message_stop' },
  ]);
  t.equal(events.length, 16);
  t.same(events[2]?.content_block, text(''), 'no citations');
});

t.test('errors have the envelope and the types of these clients', async (t) => {
  const fits = compile(messagesErrorSchema);
  const typeOf = (row: ConstructorParameters<typeof ApiError>[0]) => {
    const envelope = messagesError(new ApiError(row), 'req_1');
    t.ok(fits(envelope));
    t.equal(envelope.request_id, 'req_1');
    return envelope.error.type;
  };
  t.equal(typeOf('invalidRequest'), 'invalid_request_error');
  t.equal(typeOf('wrongKey'), 'authentication_error');
  t.equal(typeOf('apiNotOpen'), 'permission_error');
  t.equal(typeOf('modelNotFound'), 'not_found_error');
  t.equal(typeOf('bodyTooLarge'), 'request_too_large');
  t.equal(typeOf('tokensPerMinute'), 'rate_limit_error');
  t.equal(typeOf('overloaded'), 'overloaded_error');
  t.equal(typeOf('server'), 'api_error');
});
