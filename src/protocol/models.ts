/**
 * Owns the wire shapes of the model list and of a model.
 * It must never know which models are served.
 */
import { type Static, Type } from './schema.js';

export const modelSchema = Type.Object({
  id: Type.String({ description: 'An id that `model` of a request accepts.' }),
  object: Type.Literal('model'),
  created: Type.Integer({ description: 'Unix seconds.' }),
  owned_by: Type.String(),
  context_length: Type.Integer({
    minimum: 1,
    description: 'Tokens of prompt and answer together.',
  }),
  supports_image_in: Type.Boolean(),
});

export const modelListSchema = Type.Object({
  object: Type.Literal('list'),
  data: Type.Array(modelSchema),
});

export interface ModelRecord {
  readonly id: string;
  readonly createdS: number;
  readonly ownedBy: string;
  readonly windowTokens: number;
  readonly vision: boolean;
}

export function model(record: ModelRecord): Static<typeof modelSchema> {
  return {
    id: record.id,
    object: 'model',
    created: record.createdS,
    owned_by: record.ownedBy,
    context_length: record.windowTokens,
    supports_image_in: record.vision,
  };
}

export function modelList(records: readonly ModelRecord[]): Static<typeof modelListSchema> {
  return { object: 'list', data: records.map(model) };
}
