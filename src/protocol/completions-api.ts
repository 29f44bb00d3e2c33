/**
 * Owns the description of the older completions route.
 * It must never say of a field what its schema does not say.
 */
import type { ErrorName } from '../errors.js';
import { type Resource, withModels } from './api.js';
import {
  completionsChunkSchema,
  completionsEventSchema,
  completionsSchema,
} from './completions-answer.js';
import { completionsRequestSchema } from './completions-schema.js';

const JSON_TYPE = 'application/json';
const TAG = 'Completions';

const ask = { model: 'svc-v1-8k', prompt: 'The sea is', max_tokens: 20 };
const scored = { ...ask, prompt: ['The sea is blue', 'The sea is dry'], max_tokens: 0 };

export function completionsResource(
  modelIds: readonly string[],
  errors: readonly ErrorName[],
): Resource {
  return {
    tag: TAG,
    description: 'Goes on from a prompt as it is, without a template.',
    schemas: {
      CompletionRequest: withModels(completionsRequestSchema, modelIds, 'An id of the model list.'),
      Completion: completionsSchema,
      CompletionChunk: completionsChunkSchema,
      CompletionEvent: completionsEventSchema,
    },
    operations: [
      {
        method: 'post',
        path: '/v1/completions',
        id: 'createCompletion',
        tag: TAG,
        summary: 'Continue a prompt',
        description:
          'Several prompts of one request run beside each other, and a beginning that they share is evaluated once. `echo` with `logprobs` gives the log-probabilities of the prompt.',
        secured: true,
        request: {
          type: JSON_TYPE,
          schema: 'CompletionRequest',
          examples: {
            plain: ask,
            stream: { ...ask, stream: true },
            likelihoods: { ...scored, echo: true, logprobs: 1 },
          },
        },
        response: {
          description: 'The choices. With `stream: true` an event stream instead.',
          media: [
            { type: JSON_TYPE, schema: 'Completion' },
            {
              type: 'text/event-stream',
              schema: 'CompletionEvent',
              description:
                'Each event. Lines `data: <CompletionChunk>` with blank lines between them, and `data: [DONE]` last. A failure in between is `data: {"error": …}`, and then the end.',
            },
          ],
        },
        errors,
      },
    ],
  };
}
