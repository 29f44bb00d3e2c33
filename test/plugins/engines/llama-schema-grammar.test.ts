/**
 * Owns the table of schemas: which texts their grammars take, which they refuse, and what is no grammar at all.
 * It must use the engine's own grammar machine, since only that one decides what a model may say.
 */
import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { Runtime } from '../../../plugins/engines/llama/native.js';
import { schemaGrammar } from '../../../plugins/engines/llama/schema/grammar.js';

const WEIGHTS =
  process.env.PREFACE_TEST_WEIGHTS ??
  join(homedir(), '.cache/preface/models/SmolLM2-135M-Instruct.Q4_1.gguf');

/** Name, schema, texts it takes, texts it refuses. */
const rows: readonly (readonly [string, unknown, readonly unknown[], readonly unknown[]])[] = [
  [
    'optional properties in any selection',
    { type: 'object', properties: { a: { type: 'string' }, b: { type: 'integer' }, c: true } },
    [{}, { b: 1 }, { a: 'x', c: [1] }, { a: 'é"\\', b: -2, c: null }],
    [{ b: 1, a: 'x' }, { b: 1.5 }, { d: 1 }],
  ],
  [
    'further properties never repeat a listed one',
    {
      properties: { ab: { type: 'integer' }, ac: { type: 'integer' } },
      required: ['ab'],
      additionalProperties: { type: 'string' },
    },
    [{ ab: 1 }, { ab: 1, ac: 2, a: 'x', abc: 'y' }, { ab: 1, x: 's' }],
    [{ ab: 1, ab2: 3 }, '@{"ab":1,"ab":"x"}', '@{"ab":1,"ac":"x"}', '@{"ab":1,"\\u0061b":"x"}'],
  ],
  [
    'maps with counts',
    { additionalProperties: { type: 'number' }, minProperties: 1, maxProperties: 2 },
    [{ a: 1 }, { a: 1.5, b: 2e3 }],
    [{}, { a: 1, b: 2, c: 3 }, { a: 'x' }],
  ],
  ['enum of anything', { enum: ['a', 1, null, { x: 1 }] }, ['a', 1, null, { x: 1 }], ['b', 2]],
  [
    'enum with texts that begin and end alike',
    { enum: [1, 10, 100, -1, 1.5, 'a', 'ab', 'abc', 'xbc', 'é"', '中', [1], [1, 2]] },
    [1, 10, 100, -1, 1.5, 'a', 'ab', 'abc', 'xbc', 'é"', '中', [1], [1, 2]],
    [0, 1000, 1.25, 'b', 'xb', 'xab', 'bc', '', [2]],
  ],
  [
    'an enum of thousands',
    { enum: Array.from({ length: 4_000 }, (_, i) => `value-${i}`) },
    ['value-0', 'value-399', 'value-3999'],
    ['value-4000', 'value-', 'value-01', 'value-39990'],
  ],
  ['enum within its type', { type: 'string', enum: ['a', 1] }, ['a'], [1]],
  ['array bounds', { items: { type: 'integer' }, minItems: 1, maxItems: 2 }, [[1], [1, 2]], [[]]],
  [
    'tuples',
    { prefixItems: [{ type: 'integer' }, true], items: false },
    [[1, 'a']],
    [[1], [1, 2, 3]],
  ],
  [
    'lengths, counted in blocks',
    { type: 'string', minLength: 2, maxLength: 600 },
    ['ab', 'x'.repeat(300), 'x'.repeat(512), 'x'.repeat(600)],
    ['a', 'x'.repeat(601)],
  ],
  [
    'decimals between bounds',
    { type: 'number', minimum: 0, maximum: 1 },
    [0, 0.5, 1],
    [1.1, -0.1, 2],
  ],
  ['decimals above', { type: 'number', exclusiveMinimum: 0 }, [0.5, 17.25], [0, -1, '@0.0']],
  ['date-time', { format: 'date-time' }, ['2024-02-29T12:00:00Z'], ['2024-13-01T00:00:00Z']],
  ['ipv4', { format: 'ipv4' }, ['192.168.0.1'], ['256.1.1.1']],
  ['type arrays', { type: ['string', 'null'] }, ['a', null], [1]],
  [
    'references to itself',
    {
      $defs: {
        node: {
          type: 'object',
          properties: {
            v: { type: 'integer' },
            next: { anyOf: [{ $ref: '#/$defs/node' }, { type: 'null' }] },
          },
          required: ['v', 'next'],
        },
      },
      $ref: '#/$defs/node',
    },
    [{ v: 1, next: { v: 2, next: null } }],
    [{ v: 1 }],
  ],
  [
    'joined schemas',
    {
      allOf: [
        { properties: { a: { type: 'integer' } }, required: ['a'] },
        { properties: { b: true }, required: ['b'] },
      ],
    },
    [{ a: 1, b: '' }],
    [{ a: 1 }, { b: '' }],
  ],
  [
    'alternatives with common keywords',
    {
      type: 'object',
      properties: { a: true, b: true },
      anyOf: [{ required: ['a'] }, { required: ['b'] }],
    },
    [{ a: 1 }, { b: 1 }, { a: 1, b: 1 }],
    [{}],
  ],
  [
    'names of the prototype',
    JSON.parse('{"properties":{"__proto__":{"type":"integer"}}}'),
    ['@{"__proto__":1}'],
    [],
  ],
];

const many = <Value>(count: number, make: (i: number) => Value): Value[] =>
  Array.from({ length: count }, (_, i) => make(i));
/** Each begins with a character of its own and ends in its own way. */
const unlike = (count: number) => many(count, (i) => `${String.fromCodePoint(0x4e00 + i)}${i}`);
const multiplied = (count: number) =>
  Object.fromEntries(
    many(count, (i) => [
      `d${i}`,
      i === 0 ? { minLength: 1 } : { allOf: many(4, () => ({ $ref: `#/$defs/d${i - 1}` })) },
    ]),
  );

const levels = (count: number) =>
  Object.fromEntries(
    Array.from({ length: count }, (_, i) => [
      `l${i}`,
      i === 0
        ? { type: 'string' }
        : {
            anyOf: [3, 4].map((maxItems) => ({
              type: 'array',
              items: { $ref: `#/$defs/l${i - 1}` },
              maxItems,
            })),
          },
    ]),
  );

/** Name, schema, what the message says. */
const refused: readonly (readonly [string, unknown, RegExp])[] = [
  ...['pattern', 'not', 'if', 'patternProperties', 'uniqueItems', 'contains', 'multipleOf'].map(
    (keyword) => [keyword, { properties: { a: { [keyword]: 1 } } }, new RegExp(keyword)] as const,
  ),
  ['another document', { $ref: 'https://example.com/a.json' }, /\$ref/],
  ['nothing', false, /no JSON/],
  ['an unknown format', { format: 'iban' }, /iban/],
  ['a reference to nowhere', { $ref: '#/$defs/none' }, /none/],
  ['a loop of itself', { properties: { x: { $ref: '#', minProperties: 0 } } }, /too deep/],
  [
    'readings that double with each level',
    { $defs: levels(29), $ref: '#/$defs/l28' },
    /begin alike/,
  ],
  ['a length nobody can count', { type: 'string', maxLength: 1e6 }, /65536/],
  [
    'an enum whose values begin each in its own way',
    { properties: { a: { items: { enum: unlike(1_100) } } } },
    /#\/properties\/a\/items: .*more than 1024 alternatives/,
  ],
  [
    'alternatives that together begin in too many ways',
    {
      properties: {
        a: { anyOf: many(3, (i) => ({ enum: unlike(1_100).slice(i, 400 + 300 * i) })) },
      },
    },
    /#\/properties\/a: .*more than 1024 alternatives/,
  ],
  [
    'optional properties that may all be skipped',
    { properties: { a: { properties: Object.fromEntries(many(1_100, (i) => [`p${i}`, true])) } } },
    /#\/properties\/a: .*more than 1024 alternatives/,
  ],
  [
    'references that multiply with each level',
    { properties: { a: { $ref: '#/$defs/d12' } }, $defs: multiplied(13) },
    /#.*: .*more than 1000000 steps/,
  ],
  [
    'long lists that are joined',
    {
      properties: {
        a: { allOf: [{ enum: many(3_000, (i) => i) }, { enum: many(3_001, (i) => i) }] },
      },
    },
    /#\/properties\/a: .*more than 1000000 steps/,
  ],
  [
    'alternatives that each repeat a long list',
    {
      properties: { a: { enum: many(2_000, (i) => i), anyOf: many(900, (i) => ({ minimum: i })) } },
    },
    /#\/properties\/a.*: /,
  ],
  ['no number left', { type: 'integer', minimum: 5, maximum: 4 }, /minimum/],
];

for (const [name, schema, message] of refused) {
  t.throws(
    () => schemaGrammar(JSON.stringify(schema), false),
    { code: 'unsupported_schema', message },
    name,
  );
}

t.test('what values have in common is written once', async (t) => {
  const { text, width } = schemaGrammar(
    JSON.stringify({ enum: many(4_000, (i) => `value-${i}`) }),
    false,
  );
  const { text: any } = schemaGrammar(null, false);
  t.ok(width <= 10, `${width} alternatives at one place`);
  t.ok(text.length < any.length + 1_000, `${text.length - any.length} characters`);
});

t.test('the width of a grammar counts what one token is tried against', async (t) => {
  const width = (schema: unknown) => schemaGrammar(JSON.stringify(schema), false).width;
  t.equal(width({ type: 'string' }), 1);
  t.equal(width({ enum: unlike(300) }), 300);
  const optional = Object.fromEntries(many(100, (i) => [`p${i}`, true]));
  t.equal(width({ properties: optional }), 101);
  t.equal(width({ properties: optional, required: Object.keys(optional) }), 1);
  t.equal(width({ items: { anyOf: many(100, (i) => ({ enum: [`${i}`] })) } }), 100);
});

if (existsSync(WEIGHTS)) {
  const runtime = await Runtime.open();
  const weights = await runtime.load(WEIGHTS);
  t.teardown(async () => {
    await weights.close();
  });
  const taker = async (schema: unknown) => {
    const { text, width } = schemaGrammar(JSON.stringify(schema), false);
    const grammar = await weights.grammar(text, { width, owner: 'tester' });
    return async (value: unknown) => {
      const raw = typeof value === 'string' && value.startsWith('@');
      const state = await grammar.start();
      try {
        for (const id of weights.tokenize(raw ? value.slice(1) : JSON.stringify(value))) {
          if (!(await state.allows(id))) return false;
          await state.accept(id);
        }
        return await state.allows(weights.endId);
      } finally {
        state.close();
      }
    };
  };

  for (const [name, schema, good, bad] of rows) {
    t.test(name, async (t) => {
      const takes = await taker(schema);
      for (const value of good) t.ok(await takes(value), `takes ${JSON.stringify(value)}`);
      for (const value of bad) t.notOk(await takes(value), `refuses ${JSON.stringify(value)}`);
    });
  }

  t.test('whole numbers between any bounds', async (t) => {
    const wrong: string[] = [];
    const ranges = [
      [0, 9],
      [-5, 12],
      [100, 1999],
      [7, 7],
      [-20, -3],
      [0, null],
      [null, 0],
      [18, 120],
    ];
    for (const [minimum, maximum] of ranges) {
      const takes = await taker({
        type: 'integer',
        ...(minimum === null ? {} : { minimum }),
        ...(maximum === null ? {} : { maximum }),
      });
      for (let n = -130; n < 2_100; n += n < 130 ? 1 : 97) {
        const inside = n >= (minimum ?? n) && n <= (maximum ?? n);
        if ((await takes(n)) !== inside) wrong.push(`${n} in ${minimum}…${maximum}`);
      }
    }
    t.same(wrong, []);
  });
}
