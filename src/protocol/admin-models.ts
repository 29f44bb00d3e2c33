/**
 * Owns the wire shape of the models as the admin API shows them: what is in memory, who waits, what is being downloaded.
 * It must never hold anything of a user, nor a path of the machine.
 */
import { type Static, Type } from './schema.js';

const amount = Type.Integer({ minimum: 0 });
const unixTime = Type.Number({ description: 'Unix seconds, with milliseconds.' });

export const adminModelSchema = Type.Object({
  object: Type.Literal('model'),
  id: Type.String(),
  kind: Type.Enum(['chat', 'embedding', 'rerank']),
  family: Type.Union([Type.String(), Type.Null()], {
    description: 'Its models share caches; null where it answers no chats.',
  }),
  engine: Type.String(),
  window: Type.Integer({ minimum: 0, description: 'Tokens of prompt and answer together.' }),
  state: Type.Enum(['loaded', 'loading', 'unloaded', 'unknown'], {
    description:
      '`unloaded`: the next request waits until it is loaded. `unknown`: another server has it, or its process restarts.',
  }),
  state_since: Type.Union([unixTime, Type.Null()]),
  memory_bytes: Type.Union([amount, Type.Null()], {
    description: 'Of its weights and its context. Models may share both.',
  }),
  slots: Type.Integer({ minimum: 0, description: 'Requests at the same time.' }),
  waiting: Type.Integer({ minimum: 0, description: 'Requests that wait for a slot.' }),
  exact: Type.Union([Type.Enum(['proved', 'not held', 'not yet', 'off']), Type.Null()], {
    description: 'Whether an answer over a reused prefix is the cold one, bit for bit.',
  }),
});

const refusedSchema = Type.Object({ id: Type.String(), reason: Type.String() });

const downloadSchema = Type.Object({
  file: Type.String({ description: 'Name in the models folder.' }),
  bytes: Type.Integer({ minimum: 0, description: 'Those that are there.' }),
  total_bytes: Type.Union([amount, Type.Null()], { description: 'null: nobody knows.' }),
  running: Type.Boolean({
    description: 'False: it broke off, and goes on when it is asked for again.',
  }),
});

export const adminModelListSchema = Type.Object({
  object: Type.Literal('list'),
  data: Type.Array(adminModelSchema),
  refused: Type.Array(refusedSchema, {
    description: 'Models of the settings that are not served, each with the reason.',
  }),
  downloads: Type.Array(downloadSchema, {
    description: 'Files on their way into the models folder, by any process.',
  }),
});

export type WireAdminModel = Static<typeof adminModelSchema>;
export type WireAdminModelList = Static<typeof adminModelListSchema>;
