/**
 * Owns the types of what a request goes on from: kept responses, conversations and items, by name, as they are stored and as they were found.
 * It must never hold how they are found.
 */
import type { StoredPart } from './responses-items.js';
import type { JsonObject } from './schema.js';

/** What a request goes on from, and the kept items that it names. */
export interface GoesOnFrom {
  readonly model: string;
  readonly response: string | null;
  readonly conversation: string | null;
  readonly references: readonly string[];
}

/** Where that is, and how large it is; read when a thread has a turn for it. */
export interface StoredEarlier {
  readonly bytes: number;
  /** @throws ApiError for what has gone meanwhile. */
  read(): EarlierParts;
}

export interface EarlierParts {
  /** Of responses or of a conversation, the oldest first. */
  readonly before: readonly StoredPart[];
  /** Where the items that are referred to can be found. */
  readonly referenced: readonly StoredPart[];
}

/** The same, as items. */
export interface Earlier {
  /** In their order. */
  readonly items: readonly JsonObject[];
  /** By their ids. */
  readonly referenced: Readonly<Record<string, JsonObject>>;
}
