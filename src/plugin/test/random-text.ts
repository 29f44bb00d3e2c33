/**
 * Owns seeded random text: scripts, digits, blanks, emoji, marks, controls and things that look like special tokens.
 * It must give the same texts for the same seed, so that a failure can be run again.
 */

export type Random = (below: number) => number;

/** Mulberry32: small, seeded, good enough to choose test cases. */
export function seededRandom(seed: number): Random {
  let state = seed >>> 0;
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * below);
  };
}

/** Given by TEST_SEED, or new; printed by the test that uses it. */
export function testSeed(): number {
  const given = Number(process.env.TEST_SEED);
  return Number.isInteger(given) && given > 0 ? given : Math.floor(Math.random() * 2 ** 31) + 1;
}

const character =
  (first: number, count: number) =>
  (random: Random): string =>
    String.fromCodePoint(first + random(count));
const oneOf =
  (texts: readonly string[]) =>
  (random: Random): string =>
    texts[random(texts.length)] ?? '';
const repeated =
  (make: (random: Random) => string, max: number) =>
  (random: Random): string =>
    Array.from({ length: 1 + random(max) }, () => make(random)).join('');

export const lookAlikes = [
  '<|im_start|>',
  '<|im_end|>',
  '<|endoftext|>',
  '<|im_',
  '|>',
  '<',
  '<file_sep>',
  '[EOS]',
  '<tool_call>',
];

const WORDS = [
  'the',
  ' model',
  'Hello',
  ' WORLD',
  "don't",
  " I'll",
  "'S",
  'naïve',
  ' Straße',
  'x_y',
  'ſ',
];
const BLANKS = [
  ' ',
  '  ',
  '\n',
  '\r\n',
  '\t',
  '\u00a0',
  '\u2003',
  '\u0085',
  '\u3000',
  '\ufeff',
  '\u200b',
];

const makers: readonly ((random: Random) => string)[] = [
  oneOf(WORDS),
  oneOf(WORDS),
  repeated(oneOf(BLANKS), 6),
  repeated(character(0x30, 10), 8),
  repeated(character(0x21, 94), 8),
  repeated(character(0x410, 64), 6),
  repeated(character(0x5d0, 27), 6),
  repeated(character(0x621, 42), 6),
  repeated(character(0x905, 60), 6),
  repeated(character(0xe01, 58), 6),
  repeated(character(0x3041, 180), 6),
  repeated(character(0x4e00, 20_000), 6),
  repeated(character(0xac00, 11_000), 4),
  repeated(character(0x300, 0x70), 3),
  repeated(character(0x1f300, 0x300), 3),
  oneOf(['👩‍👩‍👧', '🏳️‍🌈', '🇩🇪', '👍🏽', '٣٤', '½', '²', 'Ⅻ', '𝟙𝟚']),
  oneOf(lookAlikes),
  character(1, 31),
  character(0x80, 0x700),
  // Beyond 16 bits only blocks that were filled long ago: of a letter that a newer Unicode added, one reader knows that
  // it is one and another does not.
  character(0x10000, 0x3b),
  character(0x1d400, 0x55),
  character(0x20000, 0xa6d7),
  character(0xf0000, 0xfffe),
];

export function randomText(random: Random, partsMax: number): string {
  const part = () => makers[random(makers.length)]?.(random);
  return Array.from({ length: 1 + random(partsMax) }, part).join('');
}
