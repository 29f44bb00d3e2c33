/**
 * Owns a seeded generator of bodies that are made to be expensive: deep, wide, long, escaped, full of keys or numbers.
 * It must give the same body for the same seed, so that a slow one can be sent again.
 */
import { seededRandom } from '../../src/plugin/test/random-text.js';

export interface ExpensiveBody {
  readonly path: string;
  readonly bytes: Buffer;
  readonly kind: string;
}

const MIB = 2 ** 20;
const UNITS = ['{}', '[]', '1', '-0.5e-7', '""', '"\\n"', '"\\u6f22"', '"漢é"', 'null', '{"a":1}'];
const TEXTS = ['x', 'hello world ', '\\n\\"', '漢字', '\\u00e9', ' ', '<|im_start|>', '😀', 'é'];
const PATHS = ['/v1/chat/completions', '/v1/caching', '/v1/tokenizers/estimate-token-count'];

export function expensiveBody(seed: number, bytesMax = 8 * MIB - 1024): ExpensiveBody {
  const random = seededRandom(seed);
  const pick = <Item>(items: readonly Item[]): Item => items[random(items.length)] as Item;
  const bytes = Math.floor(bytesMax * (0.2 + random(80) / 100));
  const path = pick(PATHS);
  const kind = pick(['list', 'keys', 'text', 'messages', 'deep', 'parts', 'arguments', 'number']);
  const model = path === '/v1/caching' ? 'svc-v1' : 'svc-v1-8k';
  const [field, messages] = contentOf(kind, bytes, pick);
  const text = `{"model":"${model}",${path === '/v1/chat/completions' ? '"max_tokens":1,' : ''}${field}"messages":[${messages}]}`;
  return { path, kind, bytes: Buffer.from(text) };
}

type Pick = <Item>(items: readonly Item[]) => Item;

const HI = '{"role":"user","content":"hi"}';

/** A field of the body with its comma, and the messages. */
function contentOf(kind: string, bytes: number, pick: Pick): [field: string, messages: string] {
  const unit = pick(UNITS);
  const text = pick(TEXTS);
  const many = (one: string) => repeated(`${one},`, bytes).slice(0, -1);
  switch (kind) {
    case 'list':
      return pick([true, false])
        ? [`"x":[${many(unit)}],`, HI]
        : ['', `{"role":"user","content":"hi","x":[${many(unit)}]}`];
    case 'keys':
      return [`"${pick(['metadata', 'x'])}":{${keys(bytes, unit)}},`, HI];
    case 'messages':
      return ['', many(`{"role":"user","content":"${repeated(text, bytes / 3_000)}"}`)];
    case 'parts':
      return ['', `{"role":"user","content":[${many(`{"type":"text","text":"${text}"}`)}]}`];
    case 'deep':
      return ['"x":', `${repeated(pick(['[', '{"a":']), bytes)}`];
    case 'arguments': {
      const json = JSON.stringify(`[${many(pick(['{}', '1', '[]']))}]`);
      const call = `{"id":"a","type":"function","function":{"name":"f","arguments":${json}}}`;
      return ['', `${HI},{"role":"assistant","content":null,"tool_calls":[${call}]}`];
    }
    case 'number':
      return [`"x":${repeated('1', bytes)},`, HI];
    default:
      return ['', `{"role":"user","content":"${repeated(text, bytes)}"}`];
  }
}

function repeated(text: string, bytes: number): string {
  return text.repeat(Math.max(1, Math.floor(bytes / Buffer.byteLength(text))));
}

function keys(bytes: number, unit: string): string {
  const count = Math.floor(bytes / (unit.length + 11));
  return Array.from({ length: count }, (_, at) => `"k${at}":${unit}`).join(',');
}
