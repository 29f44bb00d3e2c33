/** Owns the proof that each document of the hostile corpus ends in its text or in a reason, and that the next one is read. */
import { readFileSync } from 'node:fs';
import t from 'tap';
import { hostileArchives, longLines, outwardDocuments } from '../support/hostile/archives.js';
import type { HostileDocument } from '../support/hostile/document.js';
import { hostileDrawings, hostilePictures } from '../support/hostile/pictures.js';
import { HostileReading, IMPATIENT } from '../support/hostile/reading.js';

// Readers give way to all else that runs beside them.
t.setTimeout(900_000);

const impatient = await HostileReading.open(t, IMPATIENT);
const usual = await HostileReading.open(t);
const { outwards } = impatient;

const kinds: Readonly<Record<string, readonly HostileDocument[]>> = {
  pictures: hostilePictures,
  drawings: hostileDrawings(outwards),
  archives: hostileArchives,
  'what refers outwards': outwardDocuments(outwards),
};

for (const [kind, documents] of Object.entries(kinds)) {
  t.test(kind, async (t) => {
    await impatient.checkAll(
      t,
      documents.map((document) => () => document),
    );
  });
}

t.test('lines of 50 MB', async (t) => await usual.checkAll(t, longLines));

t.test('who needs a password hears it', async (t) => {
  const bytes = readFileSync(new URL('../../../test/documents/encrypted.pdf', import.meta.url));
  t.match(await usual.outcomeOf(bytes, 'x.pdf'), { reason: /password/ });
});

t.test('nobody was asked for anything, and nothing lies about', async (t) => {
  impatient.checkAfterwards(t);
  usual.checkAfterwards(t);
});
