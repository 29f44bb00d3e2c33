/**
 * Owns the one shape that every vocabulary of a GGUF file is read into: how it cuts text, and what its pieces become.
 * It must never read a file.
 */
import { createHash } from 'node:crypto';
import type { TokenizerInfo, Vocabulary } from 'preface/plugin';
import type { GgufFacts } from './facts.js';
import type { IdList } from './pieces.js';

export interface GgufVocabulary {
  readonly facts: GgufFacts;
  /** Bytes of each id, as an answer shows them; special ones are empty. */
  readonly vocabulary: Vocabulary;
  /** What changes the ids of a text besides the facts. */
  readonly rules: readonly (string | boolean | Uint8Array)[];
  /** Of text without added tokens; it is not empty. */
  readonly encodePlain: (text: string, out: IdList) => Generator<void, void>;
}

export function infoOf(source: GgufVocabulary): TokenizerInfo {
  const { special, endIds, template, bosToken, eosToken, addBos } = source.facts;
  const { vocabulary } = source;
  const fingerprint = fingerprintOf(source);
  return { fingerprint, special, endIds, template, bosToken, eosToken, addBos, vocabulary };
}

function fingerprintOf({ facts, rules }: GgufVocabulary): string {
  const hash = createHash('sha256');
  const { model, texts, kinds, added } = facts;
  hash.update(JSON.stringify([model, texts, kinds, [...added]]));
  for (const rule of rules) hash.update(rule instanceof Uint8Array ? rule : JSON.stringify(rule));
  return hash.digest('hex');
}
