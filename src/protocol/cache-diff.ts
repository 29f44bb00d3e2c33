/**
 * Owns the wire shape of the comparison of two caches.
 * It must never compare anything itself.
 */
import { type Static, Type } from './schema.js';

const side = Type.Object({
  id: Type.String(),
  messages: Type.Integer({ minimum: 0 }),
  tokens: Type.Integer({ minimum: 0 }),
});

export const cacheDiffSchema = Type.Object({
  object: Type.Literal('context-cache.diff'),
  a: side,
  b: side,
  shared_messages: Type.Integer({
    minimum: 0,
    description: 'Leading messages that are equal; 0 where the tools differ.',
  }),
  shared_tokens: Type.Integer({
    minimum: 0,
    description:
      "Leading tokens that are equal; 0 where a cache is in status 'error', or their families differ.",
  }),
  difference: Type.Union([Type.String(), Type.Null()], {
    description: 'The first place that differs. null where the one goes on from the other.',
  }),
  message: Type.Union([Type.Integer({ minimum: 0 }), Type.Null()], {
    description:
      'Index of the first message that differs, or that only one of them has. null where the tools differ, or nothing does.',
  }),
  character: Type.Union([Type.Integer({ minimum: 0 }), Type.Null()], {
    description:
      'Characters of that text before the first different one; null where no text differs.',
  }),
});

/** What is known of two caches that were compared. */
export interface CacheDiffShown {
  readonly caches: readonly [CacheSide, CacheSide];
  readonly diff: {
    readonly sharedMessages: number;
    readonly messages: readonly [number, number];
    readonly difference: string | null;
    readonly message: number | null;
    readonly character: number | null;
  };
  readonly sharedTokens: number;
}

interface CacheSide {
  readonly id: string;
  readonly tokens: number;
}

export function cacheDiffJson({
  caches,
  diff,
  sharedTokens,
}: CacheDiffShown): Static<typeof cacheDiffSchema> {
  const [a, b] = caches;
  const { sharedMessages, messages, difference, message, character } = diff;
  return {
    object: 'context-cache.diff',
    a: { id: a.id, messages: messages[0], tokens: a.tokens },
    b: { id: b.id, messages: messages[1], tokens: b.tokens },
    shared_messages: sharedMessages,
    shared_tokens: sharedTokens,
    difference,
    message,
    character,
  };
}
