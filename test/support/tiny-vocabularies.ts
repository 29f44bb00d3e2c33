/**
 * Owns small vocabularies of every kind that a GGUF may hold, trained on a few sentences, as settings of such a file.
 * It must never need a file: what they are trained on stands here.
 */
import { type GgufValue, writeGguf } from './gguf-writer.js';
import { TINY_TOKENS } from './tiny-models.js';

export type VocabularySettings = readonly (readonly [string, GgufValue])[];

const SPACE = '\u2581';
const NORMAL = 1;
const UNKNOWN = 2;
const CONTROL = 3;
const USER_DEFINED = 4;
const BYTE = 6;

const TEXT = `
The service keeps the prefix of a prompt, and the next chat reuses it. A cache has a name, a tag and a time to live;
when the time is over, the cache is gone, but its messages are kept for a day. Don't say "never": they'll be there.
Der Speicher behält den Anfang der Anfrage. Straße, Größe und Maß. Le service garde le début; ça marche très bien.
Сервис хранит начало запроса, и следующий чат его использует. 服务保存提示的前缀，下一次聊天会重用它。 キャッシュには名前があります。
if (count > 0) { return tokens.map((id) => id + 1); } // 2024-11-22 10:45, 3.14159, 65 536
`;

/** The next pair to join is the most frequent one; of equals the first seen. */
function trained(words: readonly (readonly string[])[], count: number): [string, string][] {
  let rows = words.map((word) => [...word]);
  const merges: [string, string][] = [];
  while (merges.length < count) {
    const counts = new Map<string, number>();
    for (const row of rows) {
      for (let at = 0; at + 1 < row.length; at += 1) {
        const key = `${row[at]}\0${row[at + 1]}`;
        counts.set(key, (counts.get(key) ?? 0) + 1);
      }
    }
    const [best] = [...counts].sort((a, b) => b[1] - a[1]);
    if (best === undefined) return merges;
    const [left = '', right = ''] = best[0].split('\0');
    merges.push([left, right]);
    rows = rows.map((row) => joinedRow(row, left, right));
  }
  return merges;
}

function joinedRow(row: readonly string[], left: string, right: string): string[] {
  const joined: string[] = [];
  for (let at = 0; at < row.length; at += 1) {
    const isPair = row[at] === left && row[at + 1] === right;
    joined.push(isPair ? left + right : (row[at] ?? ''));
    if (isPair) at += 1;
  }
  return joined;
}

/** Each begins with its space. */
function words(): string[][] {
  return TEXT.replaceAll('\n', ' ')
    .split(' ')
    .filter((word) => word !== '')
    .map((word) => [...`${SPACE}${word}`]);
}

const bytes = Array.from(
  { length: 256 },
  (_, byte) => `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`,
);

const MARKS = ['<pad>', '<eos>', '<bos>', '<unk>', '<start_of_turn>', '<end_of_turn>'] as const;
const MARK_KINDS = [CONTROL, CONTROL, CONTROL, UNKNOWN, USER_DEFINED, CONTROL];
/** Found before anything else; a run of spaces is written with spaces. */
const ADDED = ['\n\n', '\n\n\n', '  ', '    ', '<table>'];
/** Two that a reader which drops byte order marks would take for one. */
const MARKED = ['\ufeff', `\ufeff${SPACE}the`];

const IDS: VocabularySettings = [
  ['tokenizer.ggml.padding_token_id', 0],
  ['tokenizer.ggml.eos_token_id', 1],
  ['tokenizer.ggml.bos_token_id', 2],
  ['tokenizer.ggml.unknown_token_id', 3],
];

/** As Gemma 1 to 3 have it; with `prefix` as Llama 2 and Mistral. Equal scores are among them. */
export function sentencePieces(prefix = false, size = TINY_TOKENS): VocabularySettings {
  const head = [...MARKS, ...ADDED, ...bytes, ...MARKED];
  const letters = [...new Set(words().flat())];
  const merged = trained(words(), size);
  const rest = [...new Set([...letters, ...merged.map(([a, b]) => a + b)])];
  const tokens = [...head, ...rest.slice(0, size - head.length)];
  const kinds = tokens.map((_, id) => kindAt(id));
  return [
    ['tokenizer.ggml.model', 'llama'],
    ['tokenizer.ggml.tokens', tokens],
    ['tokenizer.ggml.scores', tokens.map((_, id) => -(id >> 1))],
    ['tokenizer.ggml.token_type', kinds],
    ['tokenizer.ggml.add_space_prefix', prefix],
    ...IDS,
    ['tokenizer.ggml.add_bos_token', true],
  ];
}

function kindAt(id: number): number {
  if (id < MARKS.length) return MARK_KINDS[id] ?? NORMAL;
  const added = id - MARKS.length;
  if (added < ADDED.length) return USER_DEFINED;
  return added - ADDED.length < bytes.length ? BYTE : NORMAL;
}

/** As Gemma 4 has it: pairs of text, of which some reach over a space. */
export function spacedPairs(size = TINY_TOKENS): VocabularySettings {
  const head = [...MARKS, ...ADDED, ...bytes, ...MARKED, '\n', '\n\n\n\n'];
  const letters = [...new Set(words().flat())];
  const line = TEXT.replaceAll('\n', ' ').slice(0, 700).replaceAll(' ', SPACE);
  const merges = [...trained(words(), 200), ...trained([[...line]], 40)];
  const all = [...new Set([...head, ...letters, ...merges.map(([a, b]) => a + b)])];
  const tokens = all.slice(0, size);
  const known = merges.filter(([a, b]) => tokens.includes(a + b));
  return [
    ['tokenizer.ggml.model', 'gemma4'],
    ['tokenizer.ggml.tokens', tokens],
    ['tokenizer.ggml.token_type', tokens.map((_, id) => kindAt(id))],
    ['tokenizer.ggml.merges', known.map(([a, b]) => `${a} ${b}`)],
    ...IDS,
  ];
}

/** As BERT has it: a word's first part has the space letter, the others none. */
export function wordPieces(lowercase = true): VocabularySettings {
  const parts = words().map((word) => (lowercase ? word.map((l) => l.toLowerCase()) : word));
  const merged = trained(parts, 260).map(([a, b]) => a + b);
  const letters = [...new Set(parts.flat())].filter((letter) => letter !== SPACE);
  const marks = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]'];
  const signs = [...letters, ...letters.map((letter) => SPACE + letter)];
  const tokens = [...new Set([...marks, ...signs, ...merged])];
  return [
    ['tokenizer.ggml.model', 'bert'],
    ['tokenizer.ggml.tokens', tokens],
    ['tokenizer.ggml.token_type', tokens.map((_, id) => (id < marks.length ? CONTROL : NORMAL))],
    ['tokenizer.ggml.padding_token_id', 0],
    ['tokenizer.ggml.unknown_token_id', 1],
    ['tokenizer.ggml.bos_token_id', 2],
    ['tokenizer.ggml.eos_token_id', 3],
    ['tokenizer.ggml.seperator_token_id', 3],
    ['tokenizer.ggml.normalizer.lowercase', lowercase],
  ];
}

/** As T5 and XLM-R have it. No two ways to cut a text have one score. */
export function unigrams({ joins = true, begins = true } = {}): VocabularySettings {
  const letters = [...new Set(words().flat())];
  const merged = trained(words(), 260).map(([a, b]) => a + b);
  const head = ['<pad>', '</s>', '<unk>', '<extra_id_0>'];
  const tokens = [...new Set([...head, ...letters, ...merged])];
  const kinds = [CONTROL, CONTROL, UNKNOWN, USER_DEFINED];
  return [
    ['tokenizer.ggml.model', 't5'],
    ['tokenizer.ggml.tokens', tokens],
    ['tokenizer.ggml.scores', tokens.map((text, id) => -((id * 7_919) % 9_973) - 3 * text.length)],
    ['tokenizer.ggml.token_type', tokens.map((_, id) => kinds[id] ?? NORMAL)],
    ['tokenizer.ggml.padding_token_id', 0],
    ['tokenizer.ggml.eos_token_id', 1],
    ['tokenizer.ggml.unknown_token_id', 2],
    ['tokenizer.ggml.add_space_prefix', begins],
    ['tokenizer.ggml.remove_extra_whitespaces', joins],
    ['tokenizer.ggml.precompiled_charsmap', characterMap(REPLACED)],
  ];
}

/** What stands for what; where two begin alike the longer one counts. */
const REPLACED: readonly (readonly [string, string])[] = [
  ['\t', ' '],
  ['\n', ' '],
  ['\u3000', ' '],
  ['\u00a0', ' '],
  ['\ufb01', 'fi'],
  ['\u00bd', '1/2'],
  ['e\u0301', '\u00e9'],
  ['e\u0301\u0301', 'e'],
  ['\u200b', ''],
];

/** A compact double array: below a node lie its children, at its base by their bytes; by 0 lies its text's place. */
function characterMap(pairs: readonly (readonly [string, string])[]): Uint8Array {
  const nodes = new Uint32Array(16_384);
  const taken = new Set([0]);
  const texts: number[] = [];
  const place = (index: number, rows: readonly (readonly [Buffer, string])[]) => {
    const whole = rows.find(([rest]) => rest.length === 0);
    const labels = [...new Set(rows.map(([rest]) => rest[0] ?? 0))];
    let base = 256;
    while (labels.some((label) => taken.has(base ^ label))) base += 1;
    for (const label of labels) taken.add(base ^ label);
    nodes[index] = (nodes[index] ?? 0) | ((index ^ base) << 10) | (whole === undefined ? 0 : 0x100);
    if (whole !== undefined) {
      nodes[base] = (texts.length | 0x80_00_00_00) >>> 0;
      texts.push(...Buffer.from(whole[1]), 0);
    }
    for (const label of labels.filter((each) => each !== 0)) {
      nodes[base ^ label] = label;
      const below = rows.filter(([rest]) => rest[0] === label);
      place(
        base ^ label,
        below.map(([rest, text]) => [rest.subarray(1), text] as const),
      );
    }
  };
  place(
    0,
    pairs.map(([from, to]) => [Buffer.from(from), to] as const),
  );
  const head = Buffer.alloc(4);
  head.writeUInt32LE(nodes.byteLength);
  return Buffer.concat([head, Buffer.from(nodes.buffer), Buffer.from(texts)]);
}

/** What Gemma's own template writes, in short. */
export const TURNS_TEMPLATE = [
  'tokenizer.chat_template',
  "{{ bos_token }}{% for m in messages %}{{ '<start_of_turn>' + m.role + '\n' + m.content | trim + '<end_of_turn>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}",
] as const;

/** A file of the vocabulary alone. */
export async function writeVocabulary(path: string, settings: VocabularySettings): Promise<void> {
  const entries = [['general.architecture', 'llama'], ...settings, TURNS_TEMPLATE] as const;
  await writeGguf(path, new Map<string, GgufValue>(entries), []);
}
