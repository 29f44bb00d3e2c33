/**
 * Owns the WASM encoder; the only file that knows its package.
 * It must never be given an unbounded run of one kind of character: it panics on a million blanks.
 */
import { Tiktoken } from '@dqbd/tiktoken';
import type { Vocabulary } from 'preface/plugin';

export interface WasmEncoder {
  /** Ranks of plain text; special-token text is text. */
  encode(text: string): Uint32Array;
  /** WASM memory is not collected: without this it is lost. */
  free(): void;
}

export function openWasmEncoder(ranks: Vocabulary, pattern: string): WasmEncoder {
  const encoder = new Tiktoken(rankLines(ranks), {}, pattern);
  return {
    encode: (text) => encoder.encode_ordinary(text),
    free: () => {
      encoder.free();
    },
  };
}

/** The `base64 rank` lines that the encoder reads. */
function rankLines({ bytes, offsets }: Vocabulary): string {
  const all = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const lines: string[] = [];
  for (let rank = 0; rank + 1 < offsets.length; rank += 1) {
    lines.push(`${all.toString('base64', offsets[rank], offsets[rank + 1])} ${rank}`);
  }
  return lines.join('\n');
}
