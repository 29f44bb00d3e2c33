/**
 * Owns the tokenizer without a vocabulary file: a token is a byte. For the echo engine, tests and benches.
 * It must never need a binary, a file or another package.
 */
import type { Tokenizer, TokenizerInfo, TokenizerPlugin } from 'preface/plugin';

const SPECIAL = { '<|im_start|>': 256, '<|im_end|>': 257, '<|image|>': 258 } as const;

const TEMPLATE = `
{%- for message in messages -%}
{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\\n' }}{%- endif -%}
`.trim();

const info: TokenizerInfo = {
  fingerprint: 'bytes-1',
  special: SPECIAL,
  endIds: [SPECIAL['<|im_end|>']],
  template: TEMPLATE,
  bosToken: '<|im_start|>',
  eosToken: '<|im_end|>',
  addBos: false,
  vocabulary: {
    bytes: Uint8Array.from({ length: 256 }, (_, id) => id),
    offsets: Uint32Array.from({ length: 260 }, (_, id) => Math.min(id, 256)),
  },
};

const encoder = new TextEncoder();
const PIECE_BYTES = 64 * 1024;
const ASCII_MAX = 0x7f;

/** null: some letter takes more than one byte. */
function idsOfAscii(text: string): Uint32Array | null {
  const ids = new Uint32Array(text.length);
  for (let at = 0; at < text.length; at += 1) {
    const unit = text.charCodeAt(at);
    if (unit > ASCII_MAX) return null;
    ids[at] = unit;
  }
  return ids;
}

/** In pieces: the ids of a long text take four times its bytes already. */
function idsOf(text: string): Uint32Array {
  const ids = new Uint32Array(Buffer.byteLength(text));
  const piece = new Uint8Array(Math.min(ids.length, PIECE_BYTES));
  let [taken, at] = [0, 0];
  while (taken < text.length) {
    const { read, written } = encoder.encodeInto(text.slice(taken), piece);
    ids.set(written < PIECE_BYTES ? piece.subarray(0, written) : piece, at);
    taken += read;
    at += written;
  }
  return ids;
}

const tokenizer: Tokenizer = {
  info: () => info,
  encode: (text) => (text.length < PIECE_BYTES ? idsOfAscii(text) : null) ?? idsOf(text),
  close() {
    // Nothing is held.
  },
};

const plugin: TokenizerPlugin = {
  kind: 'tokenizer',
  name: 'tokenizer-bytes',
  contract: 1,
  isQuick: true,
  open: () => Promise.resolve(tokenizer),
};

export default plugin;
