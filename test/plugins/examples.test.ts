/** The examples that a plugin's writer begins with: they keep the contracts, and the service runs them by path. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import engine from '../../plugins/examples/engine-alphabet.js';
import extractor from '../../plugins/examples/extractor-subtitles.js';
import filter from '../../plugins/examples/filter-cards.js';
import { engineSuite } from '../../src/plugin/test/engine.js';
import { snapshotSuite } from '../../src/plugin/test/engine-snapshots.js';
import { extractorSuite } from '../../src/plugin/test/extractor.js';
import { filterSuite } from '../../src/plugin/test/filter.js';
import { aliceKey, openService } from '../support/service.js';

const subtitles = `1\r
00:00:01,000 --> 00:00:04,200\r
The lamp is out.\r
\r
2\r
00:00:05,000 --> 00:00:09,000\r
Then 12 of us\r
row to the rock.\r
`;

async function folder(t: Test): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'preface-example-'));
  t.teardown(() => rm(path, { recursive: true, force: true }));
  return path;
}

t.test('the engine keeps the contract', async (t) => {
  const stateDir = await folder(t);
  const options = {
    models: [{ id: 'm', weights: null, window: 4_096 }],
    exact: true,
    threads: null,
    slots: 2,
    memoryBytesMax: 1e9,
    snapshotBytesMax: 1e9,
    stateDir,
  };
  const open = async () => ({
    engine: await engine.open(options),
    model: 'm',
    prompt: Uint32Array.from({ length: 40 }, (_, i) => i),
    endIds: [257],
  });
  t.test('of engines', async (t) => engineSuite(t, open));
  t.test('of kept prefixes', async (t) => snapshotSuite(t, open));
});

extractorSuite(t, {
  plugin: extractor,
  documents: [
    {
      bytes: Buffer.from(subtitles),
      filename: 'film.srt',
      fileType: 'application/x-subrip',
      words: ['The lamp is out.', 'Then 12 of us row to the rock.'],
      pages: 1,
    },
  ],
});

filterSuite(t, {
  name: 'filter-cards',
  plugin: filter,
  options: { file: null },
  rejected: ['4111 1111 1111 1111', '5500-0055-5555-5559', '378282246310005'],
  allowed: ['call 555 0199 or 4111 now', 'it is 4111 1111 1111 1112 cents', 'one 1 two 2 three'],
});

t.test('the service runs them by the paths in its settings', async (t) => {
  const path = (name: string) =>
    fileURLToPath(new URL(`../../plugins/examples/${name}.js`, import.meta.url));
  const settings = join(await folder(t), 'settings.json');
  const model = { engine: path('engine-alphabet'), tokenizer: 'bytes', window: 512 };
  await writeFile(settings, JSON.stringify({ models: { 'abc-1': model } }));
  const service = await openService(t, {
    PREFACE_CONFIG: settings,
    PREFACE_EXTRACTORS: `${path('extractor-subtitles')},text`,
    PREFACE_FILTERS: path('filter-cards'),
  });
  const messages = [{ role: 'user', content: 'go on' }];
  const chat = { model: 'abc-1', messages, max_tokens: 5, n: 2, temperature: 1 };
  const answer = await (await service.call('POST', '/chat/completions', chat)).json();
  t.match(answer, {
    choices: [{ message: { content: 'abcde' } }, { message: { content: 'bcdef' } }],
  });
  const secret = [{ role: 'user', content: 'mine is 4111 1111 1111 1111' }];
  const refused = await service.call('POST', '/chat/completions', { ...chat, messages: secret });
  t.equal(refused.status, 400);
  t.match(await refused.json(), { error: { type: 'content_filter' } });
  const form = new FormData();
  form.set('purpose', 'file-extract');
  form.set('file', new Blob([subtitles]), 'film.srt');
  const headers = { authorization: `Bearer ${aliceKey}` };
  const posted = await fetch(`${service.url}/files`, { method: 'POST', headers, body: form });
  const file = (await posted.json()) as { id: string };
  const content = await (await service.call('GET', `/files/${file.id}/content`)).json();
  t.match(content, {
    file_type: 'application/x-subrip',
    content: 'The lamp is out.\nThen 12 of us\nrow to the rock.',
  });
});
