/** What an upstream runs is counted here by a file of tiktoken ranks, with no GGUF and no round trip. */
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gunzipSync } from 'node:zlib';
import t from 'tap';
import { answerTo, model, openWithSettings, said } from '../support/chat-client.js';
import { aliceKey, openService, temporaryFolder } from '../support/service.js';

const shipped = new URL('../../../plugins/tokenizers/data/kimi-k2.tiktoken.gz', import.meta.url);
const TEXTS = ['Hello', 'Counting 12345 words: naïve, 屋顶 and 👩‍👩‍👧.', 'x'.repeat(3_000)];

t.test('ranks of a file count what the same ranks that are shipped count', async (t) => {
  const ranks = gunzipSync(readFileSync(fileURLToPath(shipped)));
  const folder = temporaryFolder(t);
  writeFileSync(join(folder, 'own.tiktoken'), ranks);
  const sha256 = createHash('sha256').update(ranks).digest('hex');
  const behind = await openService(t);
  const upstreams = [{ url: behind.url, apiKey: aliceKey, model }];
  const front = await openWithSettings(
    t,
    {
      weights: { own: { file: 'own.tiktoken', bytes: ranks.length, sha256 } },
      models: { [model]: { engine: 'openai', weights: 'own', upstreams } },
    },
    { PREFACE_MODELS_DIR: folder },
  );
  const count = async (text: string, id: string): Promise<number> => {
    const body = { ...said(text), model: id };
    const response = await front.call('POST', '/tokenizers/estimate-token-count', body);
    const { data } = (await response.json()) as { data: { total_tokens: number } };
    return data.total_tokens;
  };
  for (const text of TEXTS) {
    const counted = await count(text, model);
    t.equal(counted, await count(text, 'svc-k2.5'), text.slice(0, 40));
    t.ok(counted < text.length + 30, 'and by no bytes');
  }
  t.equal(await answerTo(front, said('and it answers')), 'and it answers');
});
