/** Owns the proof that a check is made by its first value, once. */
import t from 'tap';
import { compile, type TSchema, Type } from '../../src/protocol/schema.js';

t.test('nobody looks at a schema before a value is checked, nor again after that', async (t) => {
  let looks = 0;
  const watched = new Proxy<TSchema>(Type.Object({ text: Type.String() }), {
    get(schema, key, receiver) {
      looks += 1;
      return Reflect.get(schema, key, receiver);
    },
  });
  const fits = compile(watched);
  t.equal(looks, 0, 'a start does not wait for it');
  t.ok(fits({ text: 'a' }));
  const looksOnce = looks;
  t.ok(looksOnce > 0);
  t.notOk(fits({ text: 1 }));
  t.ok(fits({ text: 'b' }));
  t.equal(looks, looksOnce);
});
