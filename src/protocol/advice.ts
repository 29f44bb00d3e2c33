/**
 * Owns the wire shape of what was noticed of an owner's prompts.
 * It must never hold a text of a prompt.
 */
import { type Static, Type } from './schema.js';

const place = {
  object: Type.Literal('prompt.advice'),
  model: Type.String(),
  field: Type.String({
    description: 'Where prompts part, as the client wrote it: `messages[0].content`.',
  }),
  message: Type.Union([Type.Integer({ minimum: 0 }), Type.Null()], {
    description: 'Index in the conversation; null for a place outside of every message.',
  }),
  character: Type.Union([Type.Integer({ minimum: 0 }), Type.Null()], {
    description: 'Characters of that text before the place.',
  }),
  requests: Type.Integer({ minimum: 0, description: 'Requests that parted there today (UTC).' }),
  tokens: Type.Integer({
    minimum: 0,
    description: 'Tokens behind the place that were evaluated again today.',
  }),
  last_at: Type.Integer({ description: 'Unix seconds.' }),
};

export const adviceSchema = Type.Object(place);

export const adviceListSchema = Type.Object({
  object: Type.Literal('list'),
  data: Type.Array(adviceSchema),
});

/** For the operator, who sees everybody's. */
export const ownedAdviceListSchema = Type.Object({
  object: Type.Literal('list'),
  data: Type.Array(Type.Object({ user: Type.String(), ...place })),
});

export type WireOwnedAdviceList = Static<typeof ownedAdviceListSchema>;
export type WireAdviceList = Static<typeof adviceListSchema>;

/** A place at which an owner's prompts part again and again. */
export interface Advice {
  readonly model: string;
  /** The field as the client wrote it; `the prompt` where it is in no message. */
  readonly field: string;
  /** Of the canonical conversation; null outside of every message. */
  readonly message: number | null;
  /** Code points before it; null outside of every message. */
  readonly character: number | null;
  /** Requests that parted there today. */
  readonly requests: number;
  /** Tokens behind it that were evaluated again today. */
  readonly tokens: number;
  readonly lastMs: number;
}

export function adviceList(advices: readonly Advice[]): WireAdviceList {
  const data = advices.map(({ lastMs, ...shown }) => ({
    object: 'prompt.advice' as const,
    ...shown,
    last_at: Math.floor(lastMs / 1000),
  }));
  return { object: 'list', data };
}
