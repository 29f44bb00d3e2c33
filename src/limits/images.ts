/**
 * Owns the bounds of requests with large images, whose bytes are cut out of the JSON around them.
 * It must hold numbers alone; `relations.ts` asserts that they fit the others.
 */

const KIB = 1024;
const MIB = 1024 * KIB;

export const imageLimits = {
  /** A body with images, for a model that sees. */
  imageBodyBytesMax: 32 * MIB,
  /** What such a body has beside its images. */
  imageBodyTextBytesMax: 2 * MIB,
  /** A shorter text stays where it is. */
  imageCutBytesMin: 16 * KIB,
  /** Bytes of images that cross to an engine's process at once. */
  imagePieceBytes: MIB,
} as const;
