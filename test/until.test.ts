/**
 * Owns the proof that a wait of the tests ends: with what was found, or with what was awaited.
 * It must never wait for longer than its own bounds.
 */
import t from 'tap';
import { until } from './support/until.js';

t.test('what was found is returned, at the first look that finds it', async (t) => {
  let looks = 0;
  const found = await until(() => {
    looks += 1;
    return looks === 3 ? 'found' : null;
  });
  t.equal(found, 'found');
  t.equal(looks, 3);
});

t.test('after the bound the error names what was awaited', async (t) => {
  await t.rejects(
    until(() => false, 20, 'the moon'),
    { message: 'not within 20 ms: the moon' },
  );
  const nothing = (): boolean => false;
  await t.rejects(until(nothing, 20), { message: `not within 20 ms: ${nothing}` });
});

t.test('the longer it waits, the more rarely it looks', async (t) => {
  let looks = 0;
  const looking = () => {
    looks += 1;
    return false;
  };
  await t.rejects(until(looking, 2_000, 'the moon'));
  // Every five milliseconds would be almost four hundred.
  t.ok(looks < 200, `${looks} looks in two seconds`);
});

t.test('a look that throws ends the wait', async (t) => {
  await t.rejects(
    until(async () => Promise.reject(new Error('it broke'))),
    { message: 'it broke' },
  );
});
