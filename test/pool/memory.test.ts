/** Owns the proof that texts are written one behind the other, and that no more memory is kept than they take. */
import t from 'tap';
import { TextMemory } from '../../src/pool/memory.js';

t.test('texts one behind the other', async (t) => {
  const memory = new TextMemory(1_000);
  memory.write('a');
  memory.write('漢😀');
  const bytes = memory.take();
  t.equal(Buffer.from(bytes).toString(), 'a漢😀');
  t.equal(bytes.buffer.byteLength, 8, 'the rest is given back');
});

t.test('what does not fit is refused whole', async (t) => {
  const memory = new TextMemory(4);
  memory.write('ab');
  t.throws(() => memory.write('漢'), RangeError);
  t.equal(Buffer.from(memory.take()).toString(), 'ab');
});
