/**
 * Owns the proof that positions are stretched only beyond the trained window, and from what the file itself says.
 * It must never need a model.
 */
import t from 'tap';
import { ropeFacts, ropeSettings } from '../../../plugins/engines/llama/rope.js';

const [LINEAR, YARN] = [1, 2];
const of = (rope: ReturnType<typeof ropeFacts>, memory: 'dense' | 'recurrent' = 'dense') => ({
  trainedWindow: 32_768,
  memory,
  rope,
});
const facts = (more: Record<string, unknown>) =>
  ropeFacts(
    Object.fromEntries(Object.entries(more).map(([key, value]) => [`a.rope.${key}`, value])),
    'a',
  );

t.test('within the trained window the file says it all', async (t) => {
  const yarn = facts({ 'scaling.type': 'yarn', 'scaling.factor': 4 });
  for (const rope of [null, yarn]) {
    t.equal(ropeSettings(of(rope), 32_768), null);
    t.equal(ropeSettings(of(rope), 512), null);
  }
});

t.test('beyond it, from where the file itself began', async (t) => {
  t.equal(facts({}), null);
  t.equal(facts({ 'scaling.type': 'none' }), null);
  t.same(ropeSettings(of(null), 65_536), { type: YARN, scale: 0.5, original: 32_768 });
  const yarn = facts({
    'scaling.type': 'yarn',
    'scaling.factor': 4,
    'scaling.original_context_length': 8_192,
  });
  t.same(ropeSettings(of(yarn), 65_536), { type: YARN, scale: 1 / 8, original: 8_192 });
  for (const linear of [
    facts({ 'scaling.type': 'linear', 'scaling.factor': 4 }),
    facts({ scale_linear: 4 }),
  ]) {
    const found = ropeSettings(of(linear), 65_536);
    t.same(found, { type: LINEAR, scale: 1 / 8, original: 32_768 }, 'its own way goes on');
  }
  const long = facts({ 'scaling.type': 'longrope', 'scaling.original_context_length': 4_096 });
  t.equal(ropeSettings(of(long), 65_536), null, 'its file has factors for long windows');
  t.equal(ropeSettings(of(null, 'recurrent'), 65_536), null, 'a state has no positions');
});
