/**
 * Owns the proof that `--weights` is read as its help says: paths, addresses, the hub; and which models come of it.
 * It must never need a file.
 */
import t from 'tap';
import { loadConfig } from '../../src/settings/config.js';

const load = (weights: string, file: object = {}) =>
  loadConfig({
    flags: { weights, config: '/settings.json' },
    env: { HOME: '/home/alice' },
    folder: '/models',
    readFile: () => JSON.stringify(file),
  });

t.test('own weights take the place of the default ones, under their names', async (t) => {
  const { models, weights } = load('a/First One.gguf,~/second-00001-of-00003.gguf');
  t.same(
    models.map((model) => [model.id, model.family, model.window, model.weights]),
    [
      ['First-One', 'svc-v1', null, 'First-One'],
      ['second', 'second', null, 'second'],
      ['svc-v1-8k', 'svc-v1', 8_192, 'First-One'],
      ['svc-v1-32k', 'svc-v1', 32_768, 'First-One'],
      ['svc-v1-128k', 'svc-v1', 131_072, 'First-One'],
    ],
  );
  t.equal(weights['First-One']?.file, '/models/a/First One.gguf');
  t.equal(weights.second?.file, '/home/alice/second-00001-of-00003.gguf');
});

t.test('models of the settings file stay as they are written', async (t) => {
  const { models } = load('own.gguf', { models: { m: { window: 512 } } });
  t.same(
    models.map(({ id, weights }) => [id, weights]),
    [
      ['own', 'own'],
      ['m', 'smollm2-135m-instruct-q4_1'],
    ],
  );
});

t.test('two files of one name are two models', async (t) => {
  const ids = load('a/m.gguf,b/m.gguf').weightFiles.map(({ id }) => id);
  t.same(ids, ['m', 'm-2']);
});

t.test('a file of the hub or at an address is fetched into the models folder', async (t) => {
  const hub = 'https://huggingface.co';
  const table = [
    ['hf:o/r/m.gguf', 'm', 'o--r--m.gguf', `${hub}/o/r/resolve/main/m.gguf`],
    ['hf:o/r@v1/dir/m.gguf', 'm', 'o--r--m.gguf', `${hub}/o/r/resolve/v1/dir/m.gguf`],
    ['https://h/x/m%20y.gguf?a=1', null, null, null],
    ['http://h:1/x/m.gguf?a=1', 'm', 'm.gguf', 'http://h:1/x/m.gguf?a=1'],
  ] as const;
  for (const [source, id, file, url] of table) {
    if (id === null) {
      t.throws(() => load(source), /allowed: at most 64 GGUF files/, source);
      continue;
    }
    const [own] = load(source).weightFiles;
    t.match(own, { id, weights: { file, url } }, source);
  }
});

t.test('what is no file of weights is refused, with the flag and what is allowed', async (t) => {
  const wrong = [
    'm.bin',
    'hf:o/m.gguf',
    'hf:o/../m.gguf',
    'hf:../r/x/m.gguf',
    'https://u:p@h/m.gguf',
  ];
  for (const weights of wrong) {
    t.throws(
      () => load(weights),
      /^setting PREFACE_WEIGHTS \(flag --weights\): got .*hf:owner/,
      weights,
    );
  }
});

t.test('a window is left to the weights by the flag alone', async (t) => {
  for (const window of [undefined, null]) {
    const models = { m: { window } };
    t.throws(() => load('own.gguf', { models }), /models\.m\.window .*got (nothing|null), allowed/);
  }
});

t.test(
  'a draft guesses for the chat models of the local engine, or for those that name one',
  async (t) => {
    const loaded = (flags: object, models: object = {}) =>
      loadConfig({
        flags: { config: '/settings.json', ...flags },
        env: { HOME: '/home/alice' },
        folder: '/models',
        readFile: () => JSON.stringify({ models, weights: { tiny: { file: 'tiny.gguf' } } }),
      });
    const models = {
      plain: { window: 512 },
      own: { window: 512, draft: 'tiny' },
      none: { window: 512, draft: null },
      vectors: { window: 512, kind: 'embedding' },
      echo: { window: 512, engine: 'echo' },
    };
    const drafts = (flags: object) =>
      Object.fromEntries(loaded(flags, models).models.map(({ id, draft }) => [id, draft]));
    const without = { plain: null, own: 'tiny', none: null, vectors: null, echo: null };
    t.same(drafts({}), without);
    t.same(drafts({ draft: 'small.gguf' }), { ...without, plain: 'draft' });
    t.equal(loaded({ draft: 'small.gguf' }, models).weights.draft?.file, '/models/small.gguf');
    t.throws(
      () => loaded({ draft: 'small.bin' }, models),
      /^setting PREFACE_DRAFT \(flag --draft\): got .*allowed: a GGUF file/,
    );
    t.throws(
      () => loaded({}, { m: { window: 512, draft: 'other' } }),
      /models\.m\.draft.*"other".*tiny/s,
    );
    t.throws(
      () => loaded({}, { m: { window: 512, engine: 'echo', draft: 'tiny' } }),
      /models\.m\.draft.*allowed: null/s,
      'an engine that would not use it',
    );
  },
);
