/**
 * Owns the one shape that every vocabulary file is read into, and what is derived from it alike for all.
 * It must never read a file.
 */
import { createHash } from 'node:crypto';
import type { TokenizerInfo, Vocabulary } from 'preface/plugin';
import type { PiecePattern } from './patterns.js';

export interface VocabularySource {
  readonly pattern: PiecePattern;
  /** Bytes of each id; special ones are empty. */
  readonly vocabulary: Vocabulary;
  /** Merge order: `idOfRank[rank]` is the id of the token. `NO_ID` stands for a byte that has none. */
  readonly idOfRank: Uint32Array;
  /** Bytes of each rank. */
  readonly ranks: Vocabulary;
  /** Only templates may produce them. */
  readonly special: Readonly<Record<string, number>>;
  /** Added tokens that any text may produce: they are looked for before the pieces are cut. */
  readonly added: ReadonlyMap<string, number>;
  readonly endIds: readonly number[];
  readonly template: string;
  readonly bosToken: string;
  readonly eosToken: string;
  readonly addBos: boolean;
}

export function infoOf(source: VocabularySource): TokenizerInfo {
  const { special, endIds, template, bosToken, eosToken, addBos, vocabulary } = source;
  const fingerprint = fingerprintOf(source);
  return { fingerprint, special, endIds, template, bosToken, eosToken, addBos, vocabulary };
}

function fingerprintOf(source: VocabularySource): string {
  const hash = createHash('sha256').update(source.pattern.rust);
  for (const part of [source.ranks.bytes, source.ranks.offsets, source.idOfRank]) {
    hash.update(part);
  }
  const named = [...Object.entries(source.special), ...source.added];
  return hash.update(JSON.stringify(named)).digest('hex');
}
