/**
 * Owns the tests of what grammars may take from others: turns by owner, memory by owner, a time for each schema.
 * It must never need a model: what grammars do on one is tested beside the engine.
 */
import t from 'tap';
import { compileSchema } from '../../../plugins/engines/llama/compiler.js';
import { Grammars } from '../../../plugins/engines/llama/constraint.js';
import { Turns } from '../../../plugins/engines/llama/turns.js';
import { limits } from '../../../src/limits/index.js';

t.test('owners take turns, and one piece is at work at a time', async (t) => {
  const turns = new Turns();
  const order: string[] = [];
  let atWork = 0;
  const piece = (name: string) => async () => {
    t.equal(++atWork, 1);
    order.push(name);
    await new Promise((resolve) => setImmediate(resolve));
    atWork--;
    return name;
  };
  const results = ['a1', 'a2', 'a3', 'b1', 'c1', 'b2'].map((name) =>
    turns.run(name.slice(0, 1), piece(name)),
  );
  t.same(await Promise.all(results), ['a1', 'a2', 'a3', 'b1', 'c1', 'b2']);
  t.same(order, ['a1', 'b1', 'c1', 'a2', 'b2', 'a3']);
});

t.test('a piece that fails costs its own alone, and idle waits for all', async (t) => {
  const turns = new Turns();
  let done = false;
  const failing = turns.run('a', () => Promise.reject(new Error('no')));
  const other = turns.run('b', async () => {
    done = true;
  });
  await t.rejects(failing, /no/);
  await turns.idle();
  t.equal(done, true);
  await other;
});

t.test('too many pieces are refused', async (t) => {
  const turns = new Turns();
  const waiting = Array.from({ length: limits.engineQueueMax }, () =>
    turns.run('a', async () => {}),
  );
  await t.rejects(
    turns.run('b', async () => {}),
    { code: 'overloaded' },
  );
  await Promise.all(waiting);
  await turns.run('b', async () => {});
});

t.test('a grammar is compiled for each owner, and once for an owner', async (t) => {
  const compiled: string[] = [];
  const grammars = new Grammars(async (schema, triggered, owner) => {
    compiled.push(`${owner} ${schema} ${triggered}`);
    throw new Error('there is no model here');
  });
  const kept = new Grammars(async (schema, triggered, owner) => {
    compiled.push(`${owner} ${schema} ${triggered}`);
    return {} as never;
  });
  const plain = { schema: '{}', trigger: null };
  await kept.get(plain, 'alice');
  await kept.get(plain, 'alice');
  await kept.get(plain, 'bob');
  await kept.get({ schema: '{}', trigger: '<' }, 'bob');
  t.same(compiled.splice(0), ['alice {} false', 'bob {} false', 'bob {} true']);
  await t.rejects(grammars.get(plain, 'alice'));
  await t.rejects(grammars.get(plain, 'alice'));
  t.equal(compiled.length, 2, 'a failure is not kept');
});

t.test('an owner with many schemas loses their own, not those of others', async (t) => {
  let compiled = 0;
  const grammars = new Grammars(async () => {
    compiled++;
    return {} as never;
  });
  await grammars.get({ schema: '{}', trigger: null }, 'bob');
  for (let i = 0; i < 100; i++) await grammars.get({ schema: `${i}`, trigger: null }, 'alice');
  t.equal(compiled, 101);
  await grammars.get({ schema: '{}', trigger: null }, 'bob');
  t.equal(compiled, 101);
  await grammars.get({ schema: '0', trigger: null }, 'alice');
  t.equal(compiled, 102);
});

t.test('a schema that takes too long is refused, and the next one is compiled', async (t) => {
  const request = { schema: '{"type":"string"}', leadingSpace: false };
  // A thread takes longer to start than this.
  await t.rejects(compileSchema(request, 'alice', 1), {
    code: 'unsupported_schema',
    message: /#: .*longer than 1 ms/,
  });
  t.equal((await compileSchema(request, 'alice')).width, 1);
  await t.rejects(compileSchema({ ...request, schema: '{"pattern":"a"}' }, 'alice'), {
    code: 'unsupported_schema',
    message: /pattern/,
  });
});
