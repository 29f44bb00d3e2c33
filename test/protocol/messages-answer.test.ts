/** Owns the proof that the answer to a Messages request has the form its clients read. */
import t from 'tap';
import { ApiError } from '../../src/errors.js';
import { type Choice, JsonPieces, type Usage } from '../../src/protocol/completion.js';
import { MessagesAnswer, messagesReplySchema } from '../../src/protocol/messages-answer.js';
import { messagesError, messagesErrorSchema } from '../../src/protocol/messages-errors.js';
import { compile } from '../../src/protocol/schema.js';

type Fields = Readonly<Record<string, unknown>>;

const head = { id: `msg_${'0a'.repeat(16)}`, createdS: 1, model: 'm' };
const answer = new MessagesAnswer(head, { windowBound: false, isDry: false, nowS: () => 0 });
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
    { type: 'text', text: 'Hello' },
    'and nothing else: no citations',
  );
});

t.test('the parts of a prompt are its tokens, also where others counted fewer', async (t) => {
  const partsOf = (read: number, shortTokens: number, longTokens: number) => {
    const kept = { shortTokens, longTokens, missReason: null };
    const counted = { ...usage, promptTokens: 100, cachedTokens: read, kept };
    const { usage: told } = JSON.parse(textOf(answer, [choice({})], counted));
    const { ephemeral_5m_input_tokens: short, ephemeral_1h_input_tokens: long } =
      told.cache_creation;
    t.equal(told.cache_creation_input_tokens, short + long);
    const sum = told.input_tokens + told.cache_creation_input_tokens;
    t.equal(sum + told.cache_read_input_tokens, 100, 'the sum');
    return [told.cache_read_input_tokens, long, short, told.input_tokens];
  };
  t.same(partsOf(20, 30, 40), [20, 40, 30, 10]);
  t.same(partsOf(20, 30, 60), [20, 60, 20, 0]);
  t.same(partsOf(20, 30, 90), [20, 80, 0, 0]);
  t.same(partsOf(120, 0, 10), [100, 0, 0, 0]);
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
    const form = new MessagesAnswer(head, { windowBound, isDry: false, nowS: () => 0 });
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
  t.same(events[2]?.content_block, { type: 'text', text: '' }, 'no citations');
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
