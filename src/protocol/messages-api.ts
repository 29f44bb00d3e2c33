/**
 * Owns the description of the Messages API.
 * It must never say of a field what its schema does not say.
 */
import { type ErrorName, type ErrorRow, errorTable } from '../errors.js';
import { type Resource, withModels } from './api.js';
import { messagesEventSchema, messagesReplySchema, tokensCountSchema } from './messages-answer.js';
import { messagesError, messagesErrorSchema } from './messages-errors.js';
import { countTokensSchema, messagesRequestSchema } from './messages-schema.js';

const JSON_TYPE = 'application/json';
const MODEL = 'An id of the model list.';
const TAG = 'Messages';

const errors = {
  schema: 'MessagesError',
  example: (name: ErrorName) => {
    const { status, text }: ErrorRow = errorTable[name];
    return messagesError({ row: name, status, message: text }, 'req_0');
  },
} as const;

const hello = {
  model: 'svc-v1-8k',
  system: 'You answer in one sentence.',
  messages: [{ role: 'user', content: 'Why is the sky blue?' }],
};
const ask = { ...hello, max_tokens: 100 };
const book = { type: 'text', text: 'A long text', cache_control: { type: 'ephemeral', ttl: '1h' } };

export function messagesResource(modelIds: readonly string[]): Resource {
  return {
    tag: TAG,
    description: "The same chats in the form that Anthropic's clients speak.",
    schemas: {
      MessagesRequest: withModels(messagesRequestSchema, modelIds, MODEL),
      Message: messagesReplySchema,
      MessagesEvent: messagesEventSchema,
      CountTokensRequest: withModels(countTokensSchema, modelIds, MODEL),
      TokensCount: tokensCountSchema,
      MessagesError: messagesErrorSchema,
    },
    operations: [
      {
        method: 'post',
        path: '/v1/messages',
        id: 'createMessage',
        tag: TAG,
        summary: 'Answer a conversation',
        description:
          'The key may also stand in `x-api-key`. `cache_control` keeps a prefix of the request as a context cache of its owner.',
        secured: true,
        request: {
          type: JSON_TYPE,
          schema: 'MessagesRequest',
          examples: { plain: ask, cached: { ...ask, system: [book] } },
        },
        response: {
          description: 'The answer. With `stream: true` an event stream instead.',
          media: [
            { type: JSON_TYPE, schema: 'Message' },
            {
              type: 'text/event-stream',
              schema: 'MessagesEvent',
              description:
                'Each event, from `message_start` to `message_stop`. A failure in between is `error`, and then the end.',
            },
          ],
        },
        errors: [
          'contentFilter',
          'inputTooLong',
          'tokenLimit',
          'modelNotFound',
          'bodyTooLarge',
          'quotaExceeded',
          'tokensPerMinute',
          'tokensPerDay',
        ],
        errorForm: errors,
      },
      {
        method: 'post',
        path: '/v1/messages/count_tokens',
        id: 'countMessageTokens',
        tag: TAG,
        summary: 'Count the prompt tokens of a message request',
        secured: true,
        request: { type: JSON_TYPE, schema: 'CountTokensRequest', examples: { plain: hello } },
        response: {
          description: 'The count.',
          media: [{ type: JSON_TYPE, schema: 'TokensCount' }],
        },
        errors: ['modelNotFound', 'bodyTooLarge'],
        errorForm: errors,
      },
    ],
  };
}
