/**
 * Owns the wire shape of the service's own state, as the admin API shows it.
 * It must never hold anything of a user.
 */
import { type Static, Type } from './schema.js';

const amount = Type.Integer({ minimum: 0 });
const bytesBy = (description: string) =>
  Type.Unsafe<Readonly<Record<string, number>>>({
    type: 'object',
    additionalProperties: { type: 'integer', minimum: 0 },
    description,
  });

export const serviceStatusSchema = Type.Object({
  object: Type.Literal('service'),
  version: Type.String(),
  started_at: Type.Integer({ description: 'Unix seconds.' }),
  uptime_seconds: amount,
  requests: Type.Object({ active: amount, body_bytes_held: amount }),
  chats: Type.Object({
    running: amount,
    waiting: amount,
    waiting_max: Type.Integer({ minimum: 0, description: 'Chats that may wait for one model.' }),
  }),
  extractions: Type.Object({
    reading: amount,
    waiting: amount,
    waiting_max: amount,
    processes: Type.Integer({ minimum: 0, description: 'Documents read at the same time.' }),
  }),
  workers: Type.Array(
    Type.Object({
      kind: Type.Literal('inference'),
      engine: Type.String(),
      state: Type.Enum(['running', 'restarting']),
      pid: Type.Union([amount, Type.Null()]),
      memory_bytes: amount,
    }),
    { description: 'Processes that run engines.' },
  ),
  worker_restarts: Type.Object({
    inference: amount,
    tokenize: amount,
    extraction: amount,
    parse: amount,
  }),
  models: Type.Array(
    Type.Object({
      id: Type.String(),
      family: Type.String(),
      window: amount,
      slots: Type.Integer({ minimum: 0, description: 'Chats at the same time.' }),
      waiting: Type.Integer({ minimum: 0, description: 'Chats that wait for a slot.' }),
      waiting_tokens: Type.Integer({
        minimum: 0,
        description: 'Tokens that the waiting chats may use.',
      }),
      exact: Type.Union([Type.Enum(['proved', 'not held', 'not yet', 'off']), Type.Null()], {
        description: 'Whether an answer over a reused prefix is the cold one, bit for bit.',
      }),
    }),
  ),
  refused_models: Type.Array(Type.Object({ id: Type.String(), reason: Type.String() }), {
    description: 'Models of the settings that are not served, each with the reason.',
  }),
  disk_bytes: bytesBy('By what they are for: `records`, `snapshots`.'),
  memory_bytes: bytesBy('Resident, by process: `main`, `inference`.'),
});

export type WireServiceStatus = Static<typeof serviceStatusSchema>;
