/**
 * Owns the regular expressions that cut text into pieces before byte-pair encoding, one per pre-tokenizer name.
 * It must never know a vocabulary; both dialects of a pattern stand here so that they stay equal.
 */

import { RunMatcher } from '../shared/run-matcher.js';

export interface PiecePattern {
  /** For the WASM encoder: the dialect of Rust's fancy-regex. */
  readonly rust: string;
  /** The same pieces in JavaScript's `v` dialect, sticky, to find the long ones before WASM sees them. */
  readonly script: RegExp;
  /** The same again, for runs too long for any regular-expression engine. */
  readonly runs: RunMatcher;
}

/** Pieces of the pre-tokenizer that a GGUF names in `tokenizer.ggml.pre`. */
export function patternOfPre(pre: string): PiecePattern {
  const family = familyOf.get(pre);
  if (family === undefined) {
    const known = [...familyOf.keys()].join(', ');
    throw new Error(`unknown pre-tokenizer '${pre}' in tokenizer.ggml.pre; known are: ${known}`);
  }
  return piecePattern(family);
}

export function isKnownPre(pre: string): boolean {
  return familyOf.has(pre);
}

export function piecePattern(rust: string): PiecePattern {
  const source = scriptSource(rust);
  return { rust, script: new RegExp(source, 'vy'), runs: new RunMatcher(source) };
}

const CONTRACTION = `'s|'t|'re|'ve|'m|'ll|'d`;
const GPT2 = String.raw`${CONTRACTION}| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`;
/** Digits stand alone, and are cut out first: blanks before a digit lose none to it. */
const DIGITS_FIRST = String.raw`\p{N}|${CONTRACTION}| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+(?=\p{N})|\s+(?!\S)|\s+`;
const BLANKS = String.raw`\s*[\r\n]+|\s+(?!\S)|\s+`;
const ANY_CASE = `(?i:'s|'t|'re|'ve|'m|'ll|'d)`;
const wordsThen = (digits: string): string =>
  String.raw`${ANY_CASE}|[^\r\n\p{L}\p{N}]?\p{L}+|${digits}| ?[^\s\p{L}\p{N}]+[\r\n]*|${BLANKS}`;

const UPPER = String.raw`[[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]&&[^\p{Han}]]`;
const LOWER = String.raw`[[\p{Ll}\p{Lm}\p{Lo}\p{M}]&&[^\p{Han}]]`;
const BEFORE_WORD = String.raw`[^\r\n\p{L}\p{N}]?`;

export const kimiPattern = piecePattern(
  [
    String.raw`[\p{Han}]+`,
    `${BEFORE_WORD}${UPPER}*${LOWER}+${ANY_CASE}?`,
    `${BEFORE_WORD}${UPPER}+${LOWER}*${ANY_CASE}?`,
    String.raw`\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*`,
    BLANKS,
  ].join('|'),
);

/** Words by the case of their letters, with marks; a slash ends a run of signs like a line does. */
const wordsByCase = (digits: string, contraction: string): string => {
  const upper = String.raw`[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`;
  const lower = String.raw`[\p{Ll}\p{Lm}\p{Lo}\p{M}]`;
  return [
    `${BEFORE_WORD}${upper}*${lower}+${contraction}`,
    `${BEFORE_WORD}${upper}+${lower}*${contraction}`,
    String.raw`${digits}| ?[^\s\p{L}\p{N}]+[\r\n\/]*`,
    BLANKS,
  ].join('|');
};

const WORDS_WITH_MARKS = [
  ANY_CASE,
  String.raw`${BEFORE_WORD}[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*`,
  BLANKS,
].join('|');

/** A pattern, and the names under which files ask for it. */
const families: readonly (readonly [pattern: string, names: string])[] = [
  [DIGITS_FIRST, 'smollm starcoder refact command-r codeshell exaone minerva-7b mellum2'],
  [
    GPT2,
    'gpt-2 phi-2 mpt olmo jais trillion granite-docling exaone4 gigachat a.x-4.0 mellum modern-bert',
  ],
  [
    wordsThen(String.raw`\p{N}{1,3}`),
    'llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 dbrx smaug-bpe chatglm-bpe glm4 glm5 jina-v5-nano',
  ],
  [
    wordsThen(String.raw`\p{N}`),
    'qwen2 deepseek-r1-qwen f2llmv2 kormo megrez stablelm2 hunyuan solar-open grok-2',
  ],
  [WORDS_WITH_MARKS, 'qwen35'],
  [wordsByCase(String.raw`\p{N}{1,3}`, `${ANY_CASE}?`), 'gpt-4o llama4 kanana2 talkie minimax-m2'],
  [wordsByCase(String.raw`\p{N}`, ''), 'tekken'],
];

const familyOf = new Map(
  families.flatMap(([pattern, names]) => names.split(' ').map((name) => [name, pattern] as const)),
);

/**
 * Rust's `\s` is White_Space, JavaScript's is not (U+0085, U+FEFF); `\p{Han}` needs its property name;
 * case folding without the `i` flag is written out, with the long s that Rust folds to s.
 */
function scriptSource(rust: string): string {
  return rust
    .replaceAll(ANY_CASE, `(?:'[sS\u017F]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])`)
    .replaceAll(String.raw`\s`, String.raw`\p{White_Space}`)
    .replaceAll(String.raw`\S`, String.raw`\P{White_Space}`)
    .replaceAll(String.raw`\p{Han}`, String.raw`\p{Script=Han}`);
}
