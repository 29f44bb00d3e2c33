/**
 * A stored cache that is written down byte by byte: what comes out is what texts would give, and what went in.
 */
import t from 'tap';
import { DamagedRecord, encodeRecord, encodeRecordInto } from '../../src/codec.js';
import { writeShownBody } from '../../src/parsing/shown-body.js';
import { decodeBody, encodeBody } from '../../src/parsing/stored-body.js';
import { randomText, seededRandom, testSeed } from '../../src/plugin/test/random-text.js';
import { cacheContentJson } from '../../src/protocol/caching.js';

function shown(stored: Uint8Array): string {
  const into = Buffer.alloc(stored.byteLength + 8);
  return into.toString('utf8', 4, writeShownBody(stored, into, 4));
}

/** JSON texts of values with all that JSON escapes. */
function texts(random: ReturnType<typeof seededRandom>): string[] {
  const odd = ['"', '\\', '\b\f\n\r\t', '\u0000\u001f', '/', '漢😀', '\\u0041'];
  return Array.from({ length: random(4) }, () =>
    JSON.stringify({ role: 'user', content: randomText(random, 6) + (odd[random(8)] ?? '') }),
  );
}

t.test('random caches come out as they went in', async (t) => {
  const seed = testSeed();
  const random = seededRandom(seed);
  t.comment(`TEST_SEED=${seed}`);
  for (let round = 0; round < 500; round += 1) {
    const content = { messages: texts(random), tools: texts(random) };
    const stored = encodeBody(content);
    const expected = cacheContentJson(decodeBody(stored));
    if (shown(stored) !== expected) t.equal(shown(stored), expected, `round ${round}`);
    const own = encodeRecordInto(content, (bytes) => new ArrayBuffer(bytes));
    if (shown(own) !== expected) t.equal(shown(own), expected, `round ${round}, in own memory`);
  }
  t.equal(shown(encodeBody({ messages: [], tools: [] })), '"messages":[],"tools":[]');
});

t.test('escapes that a text of JSON never has come out, too', async (t) => {
  const raw = 'a\n\u0001\u00e9"\\/b';
  t.equal(shown(encodeBody({ messages: [raw], tools: [] })), `"messages":[${raw}],"tools":[]`);
});

t.test('what is no stored cache is damage', async (t) => {
  const wrong = [{ tools: [] }, { messages: [] }, { messages: [1], tools: [] }, [], 'x', null];
  const more = { messages: [], tools: [], x: 1 };
  for (const value of [...wrong, more, { messages: ['a', 2], tools: [] }]) {
    t.throws(() => shown(encodeRecord(value)), DamagedRecord, JSON.stringify(value));
  }
  t.throws(() => shown(Buffer.from('nothing')), DamagedRecord);
});
