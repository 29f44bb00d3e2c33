/**
 * The order of the checks: a request with every fault at once, whose faults are mended one by one; the first that is
 * left answers.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { openWithSettings, said } from '../support/chat-client.js';
import { RawClient, request } from '../support/raw-client.js';
import { temporaryFolder } from '../support/service.js';

t.setTimeout(120_000);

const users = {
  suspended: { state: 'suspended', apis: [], rpm: 1 },
  closed: { apis: [], rpm: 1 },
  hasty: { rpm: 1, tpm: 1 },
  poor: { tpm: 1, tpd: 1 },
  daily: { tpd: 1 },
  rich: {},
};
const key = (user: string) => `key-of-${user}`;
const engine = fileURLToPath(new URL('../support/engine-probe.js', import.meta.url));
const words = join(temporaryFolder(t), 'words.txt');
writeFileSync(words, 'forbidden\n');
const service = await openWithSettings(
  t,
  {
    accounts: { users },
    filters: `words=${words}`,
    defaults: { engine, tokenizer: 'bytes', weights: null },
  },
  {
    PREFACE_API_KEYS: Object.keys(users)
      .map((user) => `${user}:${key(user)}`)
      .join(),
  },
);
const port = Number(new URL(service.url).port);

const cacheFault = 'X-Svc-Context-Cache-DryRun: 7';
const good = { ...said('/full forbidden'), max_tokens: 5 };
const long = { ...good, max_tokens: 9_000 };
const large = 'Content-Length: 100000000';

interface Step {
  readonly path?: string;
  readonly bearer: string | null;
  readonly body?: unknown;
  readonly headers?: readonly string[];
  readonly answer: RegExp;
}

const unknownModel = { ...long, model: 'svc-v1-16k' };
const broken = { ...unknownModel, temperature: 5 };

/** Each row still has the faults of all that follow. */
const steps: readonly Step[] = [
  { path: '/v1/nothing', bearer: null, headers: [large], answer: /404 [\s\S]*Not found the route/ },
  { bearer: null, headers: [large], answer: /401 [\s\S]*Invalid Authentication/ },
  { bearer: 'x', headers: [large], answer: /401 [\s\S]*Incorrect API key provided/ },
  { bearer: key('suspended'), headers: [large], answer: /403 [\s\S]*current state: suspended/ },
  { bearer: key('closed'), headers: [large], answer: /403 [\s\S]*API you are accessing/ },
  { bearer: key('hasty'), headers: [large], answer: /413 [\s\S]*the body is larger/ },
  { bearer: key('hasty'), body: broken, headers: [cacheFault], answer: /400 [\s\S]*temperature/ },
  {
    bearer: key('hasty'),
    body: broken,
    headers: [cacheFault],
    answer: /429 [\s\S]*max request: 1/,
  },
  { bearer: key('poor'), body: broken, headers: [cacheFault], answer: /400 [\s\S]*temperature/ },
  {
    bearer: key('poor'),
    body: unknownModel,
    headers: [cacheFault],
    answer: /404 [\s\S]*Not found the model/,
  },
  { bearer: key('poor'), body: long, headers: [cacheFault], answer: /400 [\s\S]*DryRun/i },
  { bearer: key('poor'), body: long, answer: /400 [\s\S]*exceeded model token limit/ },
  { bearer: key('poor'), body: good, answer: /429 [\s\S]*TPM rate limit/ },
  { bearer: key('daily'), body: good, answer: /429 [\s\S]*TPD rate limit/ },
  { bearer: key('rich'), body: good, answer: /400 [\s\S]*high risk/ },
  { bearer: key('rich'), body: said('/full'), answer: /429 [\s\S]*currently overloaded/ },
  { bearer: key('rich'), body: said('x'), answer: /200 / },
];

t.test('the first fault answers', async (t) => {
  for (const { path = '/v1/chat/completions', bearer, body, headers = [], answer } of steps) {
    const client = new RawClient(port);
    const text = body === undefined ? 'x' : JSON.stringify(body);
    const given = headers.includes(large) ? [] : [`Content-Length: ${text.length}`];
    const authorization = bearer === null ? [] : [`Authorization: Bearer ${bearer}`];
    const sent = request(`POST ${path}`, [...authorization, ...headers, ...given], text);
    t.match(await client.send(sent).answer('}}'), answer, String(answer));
    client.destroy();
  }
});
