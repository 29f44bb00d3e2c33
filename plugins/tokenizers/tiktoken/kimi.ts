/**
 * Owns the Kimi K2 family: its ranks file, its special tokens and the form of its prompts.
 * It must never be used for another family: pattern, specials and template belong together.
 */
import { existsSync, readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { packTokens } from '../shared/tokens.js';
import { kimiPattern } from './patterns.js';
import type { VocabularySource } from './source.js';

/** The shipped vocabulary. The build copies no data, and this module runs bundled, one folder up, or as it is. */
export function shippedRanksPath(): URL {
  const places = ['../../../plugins/tokenizers/data/', '../../../../plugins/tokenizers/data/'];
  const urls = places.map((place) => new URL(`${place}kimi-k2.tiktoken.gz`, import.meta.url));
  const found = urls.find((url) => existsSync(url));
  if (found === undefined) throw new Error(`no kimi-k2.tiktoken.gz at ${urls.join(' or ')}`);
  return found;
}

export function readKimiVocabulary(path: string | URL): VocabularySource {
  const tokens = readRanks(path);
  const count = tokens.length;
  const special = Object.fromEntries(
    Object.entries(SPECIAL_OFFSETS).map(([text, offset]) => [text, count + offset]),
  );
  const specialBytes = Array.from({ length: SPECIAL_COUNT }, () => new Uint8Array(0));
  return {
    pattern: kimiPattern,
    vocabulary: packTokens([...tokens, ...specialBytes]),
    ranks: packTokens(tokens),
    idOfRank: Uint32Array.from(tokens.keys()),
    special,
    added: new Map(),
    endIds: [count + SPECIAL_OFFSETS['[EOS]'], count + SPECIAL_OFFSETS['<|im_end|>']],
    template: TEMPLATE,
    bosToken: '[BOS]',
    eosToken: '[EOS]',
    addBos: false,
  };
}

/** Lines of `base64 rank`, in the order of the ranks, gzipped or not. */
function readRanks(path: string | URL): Uint8Array[] {
  const file = readFileSync(path);
  const isGzip = file[0] === 0x1f && file[1] === 0x8b;
  const lines = (isGzip ? gunzipSync(file) : file).toString('latin1').trimEnd().split('\n');
  return lines.map((line, rank) => {
    const [token, stated] = line.split(' ');
    if (token === undefined || Number(stated) !== rank) {
      throw new Error(`line ${rank + 1} of ${String(path)} is not 'base64 ${rank}'`);
    }
    return Buffer.from(token, 'base64');
  });
}

/** Special ids follow the ranks; most of the 256 are reserved. */
const SPECIAL_COUNT = 256;
const SPECIAL_OFFSETS = {
  '[BOS]': 0,
  '[EOS]': 1,
  '<|im_end|>': 2,
  '<|im_user|>': 3,
  '<|im_assistant|>': 4,
  '<|im_system|>': 10,
  '<|tool_calls_section_begin|>': 11,
  '<|tool_calls_section_end|>': 12,
  '<|tool_call_begin|>': 13,
  '<|tool_call_argument_begin|>': 14,
  '<|tool_call_end|>': 15,
  '<|im_middle|>': 17,
  '[PAD]': 255,
} as const;

/** Written from the description of the family's prompts: tools first, a default system message, then the turns. */
const TEMPLATE = `
{%- if tools -%}
<|im_system|>tool_declare<|im_middle|>{{ tools | tojson(separators=(',', ':')) }}<|im_end|>
{%- endif -%}
{%- if messages and messages[0].role != 'system' -%}
<|im_system|>system<|im_middle|>You are Kimi, an AI assistant created by Moonshot AI.<|im_end|>
{%- endif -%}
{%- for message in messages -%}
{%- if message.role == 'user' -%}<|im_user|>
{%- elif message.role == 'assistant' -%}<|im_assistant|>
{%- else -%}<|im_system|>
{%- endif -%}
{{ message.name or message.role }}<|im_middle|>
{%- if message.role == 'tool' -%}{{ '## Return of ' + message.tool_call_id + '\\n' }}{%- endif -%}
{{ message.content }}
{%- if message.tool_calls -%}
<|tool_calls_section_begin|>
{%- for call in message.tool_calls -%}
<|tool_call_begin|>{{ call.id }}<|tool_call_argument_begin|>
{%- if call.function.arguments is string -%}{{ call.function.arguments }}
{%- else -%}{{ call.function.arguments | tojson }}
{%- endif -%}
<|tool_call_end|>
{%- endfor -%}
<|tool_calls_section_end|>
{%- endif -%}
<|im_end|>
{%- endfor -%}
{%- if add_generation_prompt -%}<|im_assistant|>assistant<|im_middle|>{%- endif -%}
`.trim();
