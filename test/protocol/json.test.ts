/** Owns the proof that a body becomes a value which later steps can trust, or an error that says where it is wrong. */
import fc from 'fast-check';
import t from 'tap';
import { ApiError } from '../../src/errors.js';
import { limits } from '../../src/limits/index.js';
import { parseJson } from '../../src/protocol/json.js';
import { jsonErrorPosition } from '../../src/protocol/json-position.js';

function parse(text: string | Buffer): unknown {
  return parseJson(Buffer.from(text as string));
}

function refusal(text: string | Buffer): ApiError {
  try {
    parse(text);
  } catch (error) {
    if (error instanceof ApiError) return error;
    throw error;
  }
  throw new Error(`${text.toString().slice(0, 80)} was accepted`);
}

const refused: readonly [body: string | Buffer, details: string, param?: string][] = [
  ['', 'the body is empty, a JSON object is required'],
  [' \n', 'the body is empty, a JSON object is required'],
  ['\ufeff', 'the body is empty, a JSON object is required'],
  ['{', 'the JSON ends too early, at position 1'],
  ['{"a":1', 'the JSON ends too early, at position 6'],
  ['{"a":"b', 'the JSON ends too early, at position 7'],
  ['{"a":}', "the body is not valid JSON: unexpected '}' at position 5"],
  ['{"a":1,}', "the body is not valid JSON: unexpected '}' at position 7"],
  ['[1,]', "the body is not valid JSON: unexpected ']' at position 3"],
  ['{"a" 1}', "the body is not valid JSON: unexpected '1' at position 5"],
  ['{a:1}', "the body is not valid JSON: unexpected 'a' at position 1"],
  ["{'a':1}", "the body is not valid JSON: unexpected ''' at position 1"],
  ['{"a":01}', "the body is not valid JSON: unexpected '0' at position 5"],
  ['{"a":NaN}', "the body is not valid JSON: unexpected 'N' at position 5"],
  ['{"a":Infinity}', "the body is not valid JSON: unexpected 'I' at position 5"],
  ['{"a":-Infinity}', "the body is not valid JSON: unexpected '-' at position 5"],
  ['{"a":1}{', "the body is not valid JSON: unexpected '{' at position 7"],
  ['{"a":"\n"}', "the body is not valid JSON: unexpected '\\n' at position 6"],
  ['{"a":"\\x"}', "the body is not valid JSON: unexpected '\\\\' at position 6"],
  ['{"a":"\0"}', "the body is not valid JSON: unexpected '\\u0000' at position 6"],
  ['😀', "the body is not valid JSON: unexpected '😀' at position 0"],
  [Buffer.from([0x22, 0xff, 0x22]), 'the body is not valid UTF-8'],
  [Buffer.from([0x22, 0xed, 0xa0, 0x80, 0x22]), 'the body is not valid UTF-8'],
  [Buffer.from([0xff, 0xfe, 0x7b, 0x00]), 'the body is not valid UTF-8'],
  ['{"a":[0,1e400]}', 'a[1] is a number too large for a double', 'a[1]'],
  ['{"a":-1E+999}', 'a is a number too large for a double', 'a'],
  [`{"a":${'9'.repeat(400)}}`, 'a is a number too large for a double', 'a'],
  [`{"a":[true,${'9'.repeat(400)}.5]}`, 'a[1] is a number too large for a double', 'a[1]'],
  [
    '{"messages":[{"content":"\\ud800"}]}',
    'messages[0].content has a lone surrogate, which is no Unicode text',
    'messages[0].content',
  ],
  ['"\\uDFFF\\uD800"', 'the body has a lone surrogate, which is no Unicode text', 'the body'],
  [
    '{"a":{"\\udc00b":1}}',
    "a['\\udc00b'] has a key with a lone surrogate, which is no Unicode text",
    "a['\\udc00b']",
  ],
];

t.test('what is no good JSON is refused with its place', async (t) => {
  for (const [body, details, param] of refused) {
    const error = refusal(body);
    t.equal(error.message, `Invalid request: ${details}`);
    t.equal(error.status, 400);
    t.equal(error.extra.param, param, `the field at fault in ${details}`);
  }
});

t.test('nesting is bounded before anything is built', async (t) => {
  const nested = (depth: number, open: string, close: string) =>
    open.repeat(depth) + close.repeat(depth);
  t.doesNotThrow(() => parse(nested(limits.jsonDepthMax, '[', ']')));
  t.match(refusal(nested(limits.jsonDepthMax + 1, '[', ']')).message, /deeper than 64 levels, at/);
  t.match(refusal('{"a":'.repeat(65)).message, /nested deeper than 64 levels, at position 320/);
  t.match(refusal('['.repeat(4_000_000)).message, /nested deeper/);
  t.doesNotThrow(() => parse(JSON.stringify(['['.repeat(100), '\\"{'.repeat(100)])));
});

t.test('values are bounded before anything is built, and the first beyond is named', async (t) => {
  const { jsonValuesMax: max } = limits;
  const list = (count: number, item: string) => Array(count).fill(item).join(',');
  // The root, the array in it, and its items.
  t.doesNotThrow(() => parse(`{"a":[${list(max - 2, '{}')}]}`));
  t.doesNotThrow(() => parse(`{"a":[${list(max - 2, '[ ]')}]}`));
  const keys = Array.from({ length: max }, (_, at) => `"k${at}":"[,{"`).join(',');
  for (const [text, field] of [
    [`{"a":[${list(max - 1, '{}')}]}`, `a[${max - 2}]`],
    [`{"messages":[{},{"a b":[${list(max, '[ ]')}`, `messages[1]['a b'][${max - 5}]`],
    [`{${keys}}`, `k${max - 1}`],
    [`[[${list(max, '1,{"a":2}')}]]`, `[0][${(2 * (max - 1)) / 3 - 1}].a`],
  ] as const) {
    const { message, extra } = refusal(text);
    t.match(message, new RegExp(`at most ${max} values, and .* is one more$`));
    t.equal(extra.param, field);
    t.ok(message.includes(`and ${field} is`));
  }
  const long = refusal(`{"a":[${list(max - 1, '1')},2],"${'k'.repeat(4_000_000)}":1}`);
  t.ok(long.message.length < 200);
});

t.test('texts and numbers come through as they are', async (t) => {
  t.same(parse('\ufeff{"a":1}'), { a: 1 }, 'a byte order mark is skipped');
  t.same(parse('{"a":1,"a":2}'), { a: 2 }, 'of equal keys the last wins');
  t.equal(parse('"\\ud83d\\ude00"'), '😀', 'a pair of surrogates is a character');
  t.equal(parse('"\\\\ud800"'), '\\ud800', 'an escaped backslash escapes nothing more');
  t.equal(parse('1e308'), 1e308);
  t.equal(parse(`0.${'1'.repeat(400)}`), 0.1111111111111111);
  t.ok(Object.is(parse('-0'), -0));
  t.equal(parse('"\\u0000"'), '\0', 'NUL is a character of a text');
});

t.test('__proto__ is a key like any other', async (t) => {
  const value = parse('{"__proto__":{"polluted":true},"constructor":1}');
  t.same(Object.keys(value as object), ['__proto__', 'constructor']);
  t.equal(Object.getPrototypeOf(value), Object.prototype);
  t.notOk('polluted' in {});
});

t.test('any value survives, and any damage is placed inside the text', async (t) => {
  const seed = Date.now();
  t.comment(`TEST_SEED=${seed}`);
  fc.assert(
    fc.property(fc.json({ maxDepth: 8 }), (text) => {
      t.same(parse(text), JSON.parse(text));
    }),
    { seed, numRuns: 300 },
  );
  const damaged = fc
    .tuple(fc.json(), fc.nat(), fc.constantFrom('', ',', '"', '}', '[', '\\', '1', 'e', '\n'))
    .map(([text, at, by]) => {
      const cut = at % (text.length + 1);
      return text.slice(0, cut) + by + text.slice(cut + 1);
    });
  fc.assert(
    fc.property(damaged, (text) => {
      const position = jsonErrorPosition(text);
      t.equal(jsonErrorPosition(text.slice(0, position)), position, 'what is before is no error');
      try {
        JSON.parse(text);
        return position === text.length;
      } catch (error) {
        return agrees(text, position, String(error));
      }
    }),
    { seed, numRuns: 4_000 },
  );
});

/** V8 sometimes says a position: inside a broken number, word or escape, whose beginning is ours. */
function agrees(text: string, position: number, message: string): boolean {
  const said = /at position (\d+)/.exec(message);
  if (said === null) return true;
  const there = Number(said[1]);
  return there >= position && /^[\w.+\\-]*$/.test(text.slice(position, there));
}
