/**
 * Owns where the tokens of a prefix end that ends inside a message.
 * It must never keep a token that the text behind the prefix can change.
 */
const SPACE = 0x20;
const NEWLINE = 0x0a;

/**
 * Vocabularies join letters only within a word, with the space or newline before it. So the prefix ends before its last word.
 * @param tail how many tokens that word may have; a longer one is cut anywhere, and a comparison of the ids tells.
 */
export function settledIds(
  ids: Uint32Array,
  bytesOf: (id: number) => Uint8Array,
  tail: number,
): Uint32Array {
  const lowest = Math.max(0, ids.length - tail);
  for (let at = ids.length - 1; at > lowest; at -= 1) {
    const [first] = bytesOf(ids[at] as number);
    if (first === SPACE || first === NEWLINE) return ids.subarray(0, at);
  }
  return ids.subarray(0, lowest);
}
