/**
 * Owns the proof of the life of a file, state by state.
 * It must stay free of clocks, stores and actors.
 */
import t from 'tap';
import {
  type FileRecord,
  fileDetails,
  fileEffectsDue,
  fileTransition,
} from '../../src/rules/file-state.js';

const made = {
  id: 'f',
  owner: 'alice',
  filename: '../a.pdf',
  bytes: 3,
  sample: 'ab',
  createdS: 1_700_000_000,
};
const extracting: FileRecord = {
  ...made,
  progress: { status: 'extracting' },
};
const document = { fileType: 'application/pdf', title: '', pages: 1, bytes: 9 };
const ok: FileRecord = { ...extracting, progress: { status: 'ok', document } };
const refused: FileRecord = { ...extracting, progress: { status: 'error', reason: 'no text' } };

t.test('a new file is extracted', async (t) => {
  const decision = fileTransition(null, { type: 'create', file: made });
  t.same(decision, {
    next: extracting,
    reply: extracting,
    save: 'now',
    effects: [{ type: 'extract' }],
  });
  t.throws(() => fileTransition(extracting, { type: 'create', file: made }), /taken/);
});

t.test('its owner is told why it has no text, or how it was read', async (t) => {
  t.equal(fileDetails(extracting), '');
  t.equal(fileDetails(refused), 'no text');
  t.equal(fileDetails(ok), '', 'a record from before it was told');
  const told = { ...document, details: 'pages: 1' };
  t.equal(fileDetails({ ...ok, progress: { status: 'ok', document: told } }), 'pages: 1');
});

t.test('the first end counts, and is told', async (t) => {
  const ends = [
    [{ type: 'extracted', document } as const, ok],
    [{ type: 'refused', reason: 'no text' } as const, refused],
  ] as const;
  for (const [message, next] of ends) {
    const decision = fileTransition(extracting, message);
    t.same(decision, { next, reply: next, save: 'now', effects: [{ type: 'tell' }] });
    for (const state of [ok, refused, null]) {
      const late = fileTransition(state, message);
      t.same(late, { next: state, reply: state, save: 'no', effects: [] });
    }
  }
});

t.test('a delete answers what was there, and tells who waits', async (t) => {
  for (const state of [extracting, ok, refused]) {
    const { next, reply, save, effects } = fileTransition(state, { type: 'delete' });
    t.same([next, reply, save], [null, state, 'now']);
    t.same(effects, state === extracting ? [{ type: 'tell' }] : []);
  }
  t.match(fileTransition(null, { type: 'delete' }), { reply: null, save: 'no' });
});

t.test('only what a crash cut off is taken up again', async (t) => {
  t.same(fileEffectsDue(extracting), [{ type: 'extract' }]);
  for (const state of [ok, refused, null]) t.same(fileEffectsDue(state), []);
});
