/** Owns the proof that a start does not load what the metrics do without. */
import { createRequire } from 'node:module';
import t from 'tap';
import { Instruments } from '../../src/telemetry/instruments.js';

t.test('of the library only the parts are loaded that are used', async (t) => {
  const { cache } = createRequire(import.meta.url);
  const loaded = Object.keys(cache).filter((file) => /prom-client|opentelemetry/.test(file));
  t.ok(loaded.some((file) => file.endsWith('prom-client/lib/counter.js')));
  t.same(
    loaded.filter((file) => file.includes('opentelemetry')),
    [],
  );
  const instruments = new Instruments();
  instruments.counter('a_total', 'Of a.', () => [{ labels: { type: 'x' }, count: 2 }]);
  instruments.gauge('b', 'Of b.', () => ({ '': 3 }));
  const text = await instruments.registry.metrics();
  t.match(text, /^a_total\{type="x"\} 2$/m);
  t.match(text, /^b 3$/m);
});
