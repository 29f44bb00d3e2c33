/**
 * Owns a cache that a running chat will leave behind: the room taken for it before the run, and its creation after it.
 * It must never write anything for a chat that failed.
 */
import type { Reservation } from '../actors/quota.js';
import { freeBytes } from '../pool/memory.js';
import type { PrefixHash } from '../rules/prefix.js';

/** The prefix of a chat. It was checked, counted and reviewed with the chat. */
export interface ChatPrefix {
  readonly family: string;
  readonly hash: PrefixHash;
  readonly tokens: number;
  /** Messages and tools, as they are stored. */
  readonly stored: Uint8Array;
  /** How long it is kept after each use. */
  readonly ttlS: number;
  /** Half of the room is left to what the client asks for. */
  readonly implicit?: true;
  /** Nobody asked for it: it came again, and counts against a budget of its own. */
  readonly promoted?: true;
}

export class PlannedCache {
  constructor(
    readonly prefix: ChatPrefix,
    readonly places: readonly Reservation[],
    readonly create: (prefix: ChatPrefix) => Promise<boolean>,
  ) {}

  /** Durable when it resolves. Another chat may have made the same cache meanwhile: then there is nothing to do. */
  async begin(): Promise<void> {
    let created = false;
    try {
      created = await this.create(this.prefix);
      // After a failure the store may still be at it.
      freeBytes(this.prefix.stored);
    } finally {
      for (const place of this.places) {
        if (!created) place.giveBack();
        place.kept();
      }
    }
  }

  /** The chat failed: nothing is kept. */
  drop(): void {
    for (const place of this.places) place.giveBack();
    freeBytes(this.prefix.stored);
  }
}
