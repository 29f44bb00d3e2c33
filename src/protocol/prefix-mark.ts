/**
 * Owns the type of a place in a conversation up to which a request wants its prefix kept.
 * It must never hold how a wire form writes such a place down.
 */
export interface PrefixMark {
  /** Whole messages before it; 0 with no parts: the tools alone. */
  readonly messages: number;
  /** Parts of the next message before it, where it lies inside that message. */
  readonly parts: number | null;
  /** How long the prefix is kept after each use. */
  readonly ttlS: number;
  /** The client did not ask for it: it takes no room that caches by name may want. */
  readonly implicit?: true;
}
