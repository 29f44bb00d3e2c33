/**
 * Owns the description of the Responses API.
 * It must never say of a field what its schema does not say.
 */
import type { ErrorName } from '../errors.js';
import { type Operation, pathParameter, type Resource, withModels } from './api.js';
import { pageParameters } from './page-query.js';
import {
  conversationCreateSchema,
  conversationDeletedSchema,
  conversationSchema,
  conversationUpdateSchema,
  itemListSchema,
  itemShownSchema,
  itemsAddSchema,
  responseDeletedSchema,
} from './responses-lists.js';
import {
  compactionRequestSchema,
  inputTokensSchema,
  responseRequestSchema,
} from './responses-schema.js';
import { jsonObject, Type } from './schema.js';

const JSON_TYPE = 'application/json';
const MODEL = 'An id of the model list.';
const TAG = 'Responses';

const count = Type.Integer({ minimum: 0 });
const orNull = <Kind extends Parameters<typeof Type.Union>[0][number]>(schema: Kind) =>
  Type.Union([schema, Type.Null()]);

const outputItem = Type.Object(
  {
    type: Type.Enum(['message', 'function_call', 'reasoning']),
    id: Type.String(),
    status: Type.Optional(Type.Enum(['in_progress', 'completed', 'incomplete'])),
    role: Type.Optional(Type.Literal('assistant')),
    content: Type.Optional(
      Type.Array(jsonObject, { description: 'Of `output_text`; of thoughts `reasoning_text`.' }),
    ),
    summary: Type.Optional(Type.Array(jsonObject)),
    call_id: Type.Optional(Type.String({ description: 'What its output names.' })),
    name: Type.Optional(Type.String()),
    namespace: Type.Optional(
      Type.String({ description: 'The group that the function is part of.' }),
    ),
    arguments: Type.Optional(Type.String({ description: 'JSON text, as the model wrote it.' })),
  },
  { description: 'A text, a call of a tool, or thoughts.' },
);

const usage = Type.Object({
  input_tokens: count,
  input_tokens_details: Type.Object({
    cached_tokens: Type.Integer({ minimum: 0, description: 'Not evaluated again.' }),
    cache_write_tokens: Type.Integer({
      minimum: 0,
      description: 'Evaluated, and kept as a context cache.',
    }),
  }),
  output_tokens: count,
  output_tokens_details: Type.Object({ reasoning_tokens: count }),
  total_tokens: count,
});

export const responseSchema = Type.Object({
  id: Type.String({ pattern: '^resp_[0-9a-f]{32}$' }),
  object: Type.Literal('response'),
  created_at: Type.Integer({ description: 'Unix seconds.' }),
  completed_at: orNull(Type.Integer()),
  status: Type.Enum(['queued', 'in_progress', 'completed', 'incomplete', 'failed', 'cancelled']),
  error: orNull(Type.Object({ code: Type.String(), message: Type.String() })),
  incomplete_details: orNull(Type.Object({ reason: Type.Literal('max_output_tokens') })),
  model: Type.String(),
  output: Type.Array(outputItem),
  usage: orNull(usage),
  store: Type.Boolean({ description: 'It is kept.' }),
});

const compactionSchema = Type.Object({
  id: Type.String({ pattern: '^resp_[0-9a-f]{32}$' }),
  object: Type.Literal('response.compaction'),
  created_at: Type.Integer({ description: 'Unix seconds.' }),
  output: Type.Array(jsonObject, {
    description:
      "The messages that are not the model's, then one item of the type `compaction`: what a next `input` begins with.",
  }),
  usage,
});

/** One event of a stream, as a reader of event streams hands it over. */
const eventSchema = Type.Object({
  event: Type.String({ pattern: '^(response\\.[a-z_.]+|error)$' }),
  data: Type.String({ contentMediaType: JSON_TYPE }),
});

const inputTokensCount = Type.Object({
  object: Type.Literal('response.input_tokens'),
  input_tokens: count,
});

const hello = {
  model: 'svc-v1-8k',
  instructions: 'You answer in one sentence.',
  input: 'Why is the sky blue?',
};

const chatErrors: readonly ErrorName[] = [
  'contentFilter',
  'inputTooLong',
  'tokenLimit',
  'modelNotFound',
  'bodyTooLarge',
  'quotaExceeded',
  'tokensPerMinute',
  'tokensPerDay',
];

const compactOperation: Operation = {
  method: 'post',
  path: '/v1/responses/compact',
  id: 'compactResponse',
  tag: TAG,
  summary: 'Sum a conversation up',
  secured: true,
  request: {
    type: JSON_TYPE,
    schema: 'CompactionRequest',
    examples: { plain: { model: 'svc-v1-8k', input: 'Why is the sky blue?' } },
  },
  response: {
    description: 'What a next input begins with.',
    media: [{ type: JSON_TYPE, schema: 'Compaction' }],
  },
  errors: [...chatErrors, 'notFound'],
};

export function responsesResource(modelIds: readonly string[]): Resource {
  return {
    tag: TAG,
    description: 'The same chats as items and events, as the Responses API has them.',
    schemas: {
      ResponseRequest: withModels(responseRequestSchema, modelIds, MODEL),
      Response: responseSchema,
      ResponseEvent: eventSchema,
      CompactionRequest: withModels(compactionRequestSchema, modelIds, MODEL),
      Compaction: compactionSchema,
      InputTokensRequest: withModels(inputTokensSchema, modelIds, MODEL),
      InputTokens: inputTokensCount,
      ResponseDeleted: responseDeletedSchema,
      ConversationDeleted: conversationDeletedSchema,
      ItemList: itemListSchema,
    },
    operations: [
      {
        method: 'post',
        path: '/v1/responses',
        id: 'createResponse',
        tag: TAG,
        summary: 'Answer an input',
        secured: true,
        request: {
          type: JSON_TYPE,
          schema: 'ResponseRequest',
          examples: { plain: hello, stream: { ...hello, stream: true } },
        },
        response: {
          description: 'The response. With `stream: true` an event stream instead.',
          media: [
            { type: JSON_TYPE, schema: 'Response' },
            {
              type: 'text/event-stream',
              schema: 'ResponseEvent',
              description:
                'Each event, numbered by `sequence_number`, from `response.created` to `response.completed`, `response.incomplete` or `response.failed`.',
            },
          ],
        },
        errors: [...chatErrors, 'notFound'],
      },
      {
        method: 'post',
        path: '/v1/responses/input_tokens',
        id: 'countResponseTokens',
        tag: TAG,
        summary: 'Count the prompt tokens of a response',
        secured: true,
        request: { type: JSON_TYPE, schema: 'InputTokensRequest', examples: { plain: hello } },
        response: {
          description: 'The count.',
          media: [{ type: JSON_TYPE, schema: 'InputTokens' }],
        },
        errors: ['modelNotFound', 'bodyTooLarge'],
      },
      compactOperation,
      ...keptOperations,
    ],
  };
}

const json = (schema: string) => [{ type: JSON_TYPE, schema }];
const responseId = pathParameter('id', 'Id of a kept response.');
const kept = { tag: TAG, secured: true, parameters: [responseId], errors: ['notFound'] } as const;

const keptOperations: readonly Operation[] = [
  {
    ...kept,
    method: 'get',
    path: '/v1/responses/{id}',
    id: 'getResponse',
    summary: 'Read a kept response, or take up its stream again',
    parameters: [
      responseId,
      {
        name: 'stream',
        in: 'query',
        description: 'The events again, of a response made with `background` and `stream`.',
        schema: Type.Boolean(),
      },
      {
        name: 'starting_after',
        in: 'query',
        description: '`sequence_number` of the last event that the client has.',
        schema: Type.Integer({ minimum: 0 }),
      },
    ],
    response: {
      description: 'The response.',
      media: [...json('Response'), { type: 'text/event-stream', schema: 'ResponseEvent' }],
    },
  },
  {
    ...kept,
    method: 'delete',
    path: '/v1/responses/{id}',
    id: 'deleteResponse',
    summary: 'Delete a kept response',
    response: { description: 'It is gone.', media: json('ResponseDeleted') },
  },
  {
    ...kept,
    method: 'get',
    path: '/v1/responses/{id}/input_items',
    id: 'listInputItems',
    summary: 'List the items of its input',
    parameters: [responseId, ...pageParameters('item', 'their place in the input')],
    response: { description: 'A page.', media: json('ItemList') },
  },
  {
    ...kept,
    method: 'post',
    path: '/v1/responses/{id}/cancel',
    id: 'cancelResponse',
    summary: 'Cancel a response that is made in the background',
    response: { description: 'The response as it is now.', media: json('Response') },
  },
];

const conversationId = pathParameter('id', 'Id of the conversation.');
const itemId = pathParameter('item', 'Id of the item.');
const TALKS = 'Conversations';
const talk = {
  tag: TALKS,
  secured: true,
  parameters: [conversationId],
  errors: ['notFound'],
} as const;
const taken: readonly ErrorName[] = ['notFound', 'bodyTooLarge'];
const said = { type: 'message', role: 'user', content: 'Hello' };

export const conversationsResource: Resource = {
  tag: TALKS,
  description: 'Items that responses go on from, and that take what they say.',
  schemas: {
    ConversationRequest: conversationCreateSchema,
    ConversationUpdate: conversationUpdateSchema,
    Conversation: conversationSchema,
    ItemsRequest: itemsAddSchema,
    Item: itemShownSchema,
  },
  operations: [
    {
      ...talk,
      method: 'post',
      path: '/v1/conversations',
      id: 'createConversation',
      summary: 'Begin a conversation',
      parameters: [],
      request: {
        type: JSON_TYPE,
        schema: 'ConversationRequest',
        examples: { plain: { items: [said] } },
      },
      requestOptional: true,
      response: { description: 'The conversation.', media: json('Conversation') },
      errors: ['bodyTooLarge'],
    },
    {
      ...talk,
      method: 'get',
      path: '/v1/conversations/{id}',
      id: 'getConversation',
      summary: 'Read a conversation',
      response: { description: 'The conversation.', media: json('Conversation') },
    },
    {
      ...talk,
      method: 'post',
      path: '/v1/conversations/{id}',
      id: 'updateConversation',
      summary: 'Replace its metadata',
      request: {
        type: JSON_TYPE,
        schema: 'ConversationUpdate',
        examples: { plain: { metadata: { topic: 'harbour' } } },
      },
      response: { description: 'The conversation.', media: json('Conversation') },
      errors: taken,
    },
    {
      ...talk,
      method: 'delete',
      path: '/v1/conversations/{id}',
      id: 'deleteConversation',
      summary: 'Delete a conversation with its items',
      response: { description: 'It is gone.', media: json('ConversationDeleted') },
    },
    {
      ...talk,
      method: 'get',
      path: '/v1/conversations/{id}/items',
      id: 'listItems',
      summary: 'List its items',
      parameters: [conversationId, ...pageParameters('item', 'their place')],
      response: { description: 'A page.', media: json('ItemList') },
    },
    {
      ...talk,
      method: 'post',
      path: '/v1/conversations/{id}/items',
      id: 'addItems',
      summary: 'Add items',
      request: { type: JSON_TYPE, schema: 'ItemsRequest', examples: { plain: { items: [said] } } },
      response: { description: 'The items that were added.', media: json('ItemList') },
      errors: taken,
    },
    {
      ...talk,
      method: 'get',
      path: '/v1/conversations/{id}/items/{item}',
      id: 'getItem',
      summary: 'Read an item',
      parameters: [conversationId, itemId],
      response: { description: 'The item.', media: json('Item') },
    },
    {
      ...talk,
      method: 'delete',
      path: '/v1/conversations/{id}/items/{item}',
      id: 'deleteItem',
      summary: 'Delete an item',
      parameters: [conversationId, itemId],
      response: { description: 'The conversation.', media: json('Conversation') },
    },
  ],
};
