import fc from 'fast-check';
import t from 'tap';
import { Detokenizer, tokenBytes, tokenText } from '../../src/rules/detokenizer.js';

/** Token `i` is the byte `i`; 256 is special. */
const vocabulary = {
  bytes: Uint8Array.from({ length: 256 }, (_, id) => id),
  offsets: Uint32Array.from({ length: 258 }, (_, id) => Math.min(id, 256)),
};

t.test('a character comes out whole, with the token that ends it', async (t) => {
  const detokenizer = new Detokenizer(vocabulary);
  const pushed = [...Buffer.from('é👍')].map((id) => detokenizer.push([id]));
  t.same(pushed, ['', 'é', '', '', '', '👍']);
  t.equal(detokenizer.end(), '');
});

t.test('what never got its end becomes U+FFFD at the end', async (t) => {
  const detokenizer = new Detokenizer(vocabulary);
  t.equal(detokenizer.push([0x61, 0xf0, 0x9f]), 'a');
  t.equal(detokenizer.end(), '\ufffd');
});

t.test('bytes that are no text become U+FFFD at once', async (t) => {
  const detokenizer = new Detokenizer(vocabulary);
  t.equal(detokenizer.push([0xff, 0x61]), '\ufffda');
});

t.test('special ids and ids outside the vocabulary show nothing', async (t) => {
  const detokenizer = new Detokenizer(vocabulary);
  t.equal(detokenizer.push([0x61, 256, 0x62, 257, 99_999]), 'ab');
  t.equal(detokenizer.push([256]) + detokenizer.push([257]) + detokenizer.push([99_999]), '');
  t.equal(detokenizer.push([]), '');
});

t.test('a byte order mark is text like any other', async (t) => {
  const detokenizer = new Detokenizer(vocabulary);
  t.equal(detokenizer.push([...Buffer.from('\ufeffa')]), '\ufeffa');
});

t.test('any way of cutting a text gives the text', async (t) => {
  fc.assert(
    fc.property(
      fc.string({ unit: 'binary', maxLength: 40 }),
      fc.array(fc.nat(7)),
      (text, sizes) => {
        const ids = [...Buffer.from(text)];
        const detokenizer = new Detokenizer(vocabulary);
        let shown = '';
        for (const size of sizes) {
          const piece = detokenizer.push(ids.splice(0, size));
          if (/\p{Surrogate}/u.test(piece)) return false;
          shown += piece;
        }
        return shown + detokenizer.push(ids) + detokenizer.end() === text;
      },
    ),
  );
  t.pass();
});

t.test('any bytes in any cuts give what the decoder gives of the whole', async (t) => {
  const byte = fc.oneof(fc.nat(0xff), fc.constantFrom(0x61, 0xc3, 0xa9, 0xe2, 0x82, 0xf0, 0x9f));
  fc.assert(
    fc.property(fc.array(byte, { maxLength: 30 }), fc.array(fc.nat(4)), (ids, sizes) => {
      const whole = new TextDecoder('utf-8', { ignoreBOM: true }).decode(Uint8Array.from(ids));
      const detokenizer = new Detokenizer(vocabulary);
      const rest = [...ids];
      const pieces = sizes.map((size) => detokenizer.push(rest.splice(0, size)));
      return pieces.join('') + detokenizer.push(rest) + detokenizer.end() === whole;
    }),
    { numRuns: 1000 },
  );
  t.pass();
});

t.test('one token by itself has bytes and a text', async (t) => {
  t.same([...tokenBytes(vocabulary, 0xc3)], [0xc3]);
  t.equal(tokenText(vocabulary, 0xc3), '\ufffd');
  t.equal(tokenText(vocabulary, 0x61), 'a');
  t.equal(tokenText(vocabulary, 256), '');
  t.equal(tokenBytes(vocabulary, 99_999).length, 0);
});
