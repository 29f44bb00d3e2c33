/**
 * Owns a tokenizer for harnesses that count by themselves, in the files their library reads: a token is a byte.
 * It must count like the service does on the echo engine, so that both sides' figures can be compared.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const BYTES = 256;
const END = '<|end|>';

export interface TokenizerPlace {
  readonly folder: string;
  /** By which it is found as if it had been fetched from the hub. */
  readonly name: string;
}

/** @param home of what was fetched from the hub. */
export function writeByteTokenizer(home: string): TokenizerPlace {
  const model = join(home, 'hub/models--local--bytes');
  const commit = '0'.repeat(40);
  const folder = join(model, 'snapshots', commit);
  for (const place of [join(model, 'refs'), folder]) mkdirSync(place, { recursive: true });
  writeFileSync(join(model, 'refs/main'), commit);
  const save = (name: string, value: object) =>
    writeFileSync(join(folder, name), JSON.stringify(value));
  save('tokenizer.json', tokenizer());
  save('tokenizer_config.json', {
    tokenizer_class: 'PreTrainedTokenizerFast',
    model_max_length: 8_192,
    eos_token: END,
  });
  // Not a model's, but without one the folder is not taken for a tokenizer's.
  save('config.json', {});
  return { folder, name: 'local/bytes' };
}

function tokenizer(): object {
  const byteLevel = { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true };
  const end = { single_word: false, lstrip: false, rstrip: false, normalized: false };
  const vocab = Object.fromEntries(byteLetters().map((letter, byte) => [letter, byte]));
  return {
    version: '1.0',
    truncation: null,
    padding: null,
    added_tokens: [{ id: BYTES, content: END, special: true, ...end }],
    normalizer: null,
    pre_tokenizer: { ...byteLevel, use_regex: false },
    post_processor: null,
    decoder: { ...byteLevel, use_regex: false },
    model: { type: 'BPE', vocab: { ...vocab, [END]: BYTES }, merges: [] },
  };
}

/** The letter that stands for each byte in such files: itself where it can be seen, one from 256 on elsewhere. */
function byteLetters(): string[] {
  let unseen = BYTES;
  return Array.from({ length: BYTES }, (_, byte) => {
    const seen = (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte !== 0xad);
    return String.fromCharCode(seen ? byte : unseen++);
  });
}
