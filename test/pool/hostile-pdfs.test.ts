/** Owns the proof that each hostile PDF ends in its text or in a reason, and that the next document is read. */
import t from 'tap';
import { hostilePdfs } from '../support/hostile/pdf.js';
import { HostileReading, IMPATIENT } from '../support/hostile/reading.js';

// Readers give way to all else that runs beside them.
t.setTimeout(900_000);

const reading = await HostileReading.open(t, IMPATIENT);

t.test('PDF', async (t) => {
  await reading.checkAll(
    t,
    hostilePdfs.map((document) => () => document),
  );
  reading.checkAfterwards(t);
});
