/**
 * Owns the description of the batch operations.
 * It must never say of a field what its schema does not say.
 */
import { type Operation, pathParameter, type Resource } from './api.js';
import { batchCreateSchema, batchListSchema, batchSchema } from './batches.js';
import { pageParameters } from './page-query.js';

const JSON_TYPE = 'application/json';
const answer = (description: string, schema: string): Operation['response'] => ({
  description,
  media: [{ type: JSON_TYPE, schema }],
});
const common = { tag: 'Batches', secured: true } as const;
const batchId = pathParameter('id', 'Id of the batch.');

export const batchResource: Resource = {
  tag: 'Batches',
  description: 'Requests of a file that run where places are idle.',
  schemas: { BatchRequest: batchCreateSchema, Batch: batchSchema, BatchList: batchListSchema },
  operations: [
    {
      ...common,
      method: 'post',
      path: '/v1/batches',
      id: 'createBatch',
      summary: 'Run the requests of a file',
      request: {
        type: JSON_TYPE,
        schema: 'BatchRequest',
        examples: {
          plain: {
            input_file_id: '0fk3h8s02m6qkz1b7p9c',
            endpoint: '/v1/chat/completions',
            completion_window: '24h',
          },
        },
      },
      response: answer('The batch.', 'Batch'),
      errors: ['otherUser', 'notFound'],
    },
    {
      ...common,
      method: 'get',
      path: '/v1/batches',
      id: 'listBatches',
      summary: 'List the batches',
      parameters: pageParameters('batch'),
      response: answer('A page.', 'BatchList'),
      errors: ['otherUser'],
    },
    {
      ...common,
      method: 'get',
      path: '/v1/batches/{id}',
      id: 'getBatch',
      summary: 'Get a batch',
      parameters: [batchId],
      response: answer('The batch.', 'Batch'),
      errors: ['otherUser', 'notFound'],
    },
    {
      ...common,
      method: 'post',
      path: '/v1/batches/{id}/cancel',
      id: 'cancelBatch',
      summary: 'Cancel a batch',
      parameters: [batchId],
      response: answer('The batch.', 'Batch'),
      errors: ['otherUser', 'notFound'],
    },
  ],
};
