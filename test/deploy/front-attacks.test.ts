/**
 * Owns the proof that what is in front of nodes and the nodes read a request in one way: nobody's request becomes part of
 * another's, and each spelling of a key leads to the node of its owner.
 * It must send bytes, not requests: a client library would make them good.
 */
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { freePort } from '../../bench/support/free-port.js';
import { balancers } from '../support/balancers.js';
import { RawClient, request } from '../support/raw-client.js';
import { temporaryFolder } from '../support/service.js';
import { startServiceProcess } from '../support/service-process.js';
import { until } from '../support/until.js';

t.setTimeout(300_000);

const keyOf = (owner: string, letter: string) => `sk-${owner}-${letter.repeat(56)}`;
const victim = keyOf('victim', 'a');
const attacker = keyOf('attacker', 'b');
const NODES = 3;

async function startNode(t: Test): Promise<number> {
  const port = await freePort();
  await startServiceProcess(
    t,
    {},
    {
      PREFACE_PORT: `${port}`,
      PREFACE_DATA_DIR: join(temporaryFolder(t), 'data'),
      PREFACE_API_KEYS: `victim:${victim},attacker:${attacker}`,
      PREFACE_TOKENIZE_THREADS: '1',
    },
  );
  return port;
}

/** A whole request that must never run as one of its own. */
const hidden = request('DELETE /v1/caching/cache-hidden', [
  `Authorization: Bearer ${attacker}`,
  'X-Request-Id: hidden',
  'Content-Length: 0',
]);

const chunk = (text: string) => `${text.length.toString(16)}\r\n${text}\r\n`;

function post(headers: readonly string[], body: string): string {
  return request('POST /v1/caching', [`Authorization: Bearer ${attacker}`, ...headers], body);
}

/** By name; in each the end of the body is where one reader may see it and another not. */
const attacks: readonly [name: string, text: string][] = [
  [
    'a length and chunks',
    post(['Content-Length: 4', 'Transfer-Encoding: chunked'], `0\r\n\r\n${hidden}`),
  ],
  [
    'chunks and a length of all',
    post(
      [`Content-Length: ${5 + hidden.length}`, 'Transfer-Encoding: chunked'],
      `0\r\n\r\n${hidden}`,
    ),
  ],
  ['two lengths', post(['Content-Length: 0', `Content-Length: ${hidden.length}`], hidden)],
  ['a list of lengths', post([`Content-Length: 0, ${hidden.length}`], hidden)],
  ['a length with a sign', post(['Content-Length: +0'], hidden)],
  ['a length in hexadecimal', post(['Content-Length: 0x0'], hidden)],
  ['a coding behind a tab', post(['Transfer-Encoding:\tchunked'], `0\r\n\r\n${hidden}`)],
  [
    'a coding behind a space before the colon',
    post(['Transfer-Encoding : chunked', 'Content-Length: 0'], `0\r\n\r\n${hidden}`),
  ],
  ['an unknown coding', post(['Transfer-Encoding: xchunked'], `0\r\n\r\n${hidden}`)],
  ['two codings', post(['Transfer-Encoding: identity, chunked'], `0\r\n\r\n${hidden}`)],
  [
    'two lines of codings',
    post(['Transfer-Encoding: chunked', 'Transfer-Encoding: identity'], `0\r\n\r\n${hidden}`),
  ],
  [
    'a folded line',
    post(['Content-Length: 0', 'X-A: b', ` Transfer-Encoding: chunked`], `0\r\n\r\n${hidden}`),
  ],
  [
    'the extension of a chunk',
    post(
      ['Transfer-Encoding: chunked'],
      `2;a="\n${hidden.length.toString(16)}"\r\n{}\r\n0\r\n\r\n`,
    ),
  ],
  [
    'lines of a chunk that end without a return',
    post(['Transfer-Encoding: chunked'], `2\n{}\n0\n\n${hidden}`),
  ],
  [
    'a length of a chunk with a sign',
    post(['Transfer-Encoding: chunked'], `+2\r\n{}\r\n0\r\n\r\n`),
  ],
  [
    'a length of a chunk beyond all numbers',
    post(['Transfer-Encoding: chunked'], `${'f'.repeat(17)}\r\n${hidden}`),
  ],
  [
    'a trailer that is a header',
    post(
      ['Transfer-Encoding: chunked'],
      `${chunk('{}')}0\r\nContent-Length: ${hidden.length}\r\n\r\n`,
    ),
  ],
  [
    'a body of a GET',
    request('GET /v1/caching', [`Authorization: Bearer ${attacker}`, 'Content-Length: 5'], 'GET /'),
  ],
  [
    'a request to switch protocols',
    request(
      'GET /v1/caching',
      [
        `Authorization: Bearer ${attacker}`,
        'Connection: Upgrade, HTTP2-Settings',
        'Upgrade: h2c',
        'HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA',
      ],
      hidden,
    ),
  ],
  [
    'a header that is to be dropped',
    request('GET /v1/caching', [
      'Connection: close, Authorization',
      `Authorization: Bearer ${victim}`,
    ]),
  ],
];

for (const balancer of balancers) {
  t.test(balancer.name, { skip: balancer.missing }, async (t) => {
    const nodes = await Promise.all(Array.from({ length: NODES }, () => startNode(t)));
    const port = await freePort();
    balancer.start(t, { port, nodes, pinned: [] });
    const url = `http://127.0.0.1:${port}`;
    await until(
      () =>
        fetch(`${url}/v1/models`).then(
          ({ status }) => status === 401,
          () => false,
        ),
      60_000,
      `${balancer.name} answers`,
    );

    /** With an id of its own, that its answer must have. */
    let asked = 0;
    const askOf = async (key: string): Promise<string> => {
      const id = `ask-${asked++}`;
      const headers = { authorization: `Bearer ${key}`, 'x-request-id': id };
      const response = await fetch(`${url}/v1/models`, { headers });
      await response.text();
      const found = response.headers.get('x-request-id');
      return found === id && response.status === 200 ? '' : `${id}: ${response.status} ${found}`;
    };

    /** As the node of the request says. */
    const cachesOf = async (headers: Readonly<Record<string, string>>): Promise<number> => {
      const response = await fetch(`${url}/v1/caching`, { headers });
      return ((await response.json()) as { data: unknown[] }).data.length;
    };

    // Else one key would have the rates and the room of each node.
    const messages = [{ role: 'user', content: 'hi' }];
    const made = await fetch(`${url}/v1/caching`, {
      method: 'POST',
      headers: { authorization: `Bearer ${attacker}` },
      body: JSON.stringify({ model: 'svc-v1', messages }),
    });
    t.equal(made.status, 200);
    const spellings = Array.from({ length: 2 ** 6 }, (_, bits) =>
      [...'bearer'].map((letter, i) => (bits & (1 << i) ? letter.toUpperCase() : letter)).join(''),
    );
    const found: string[] = [];
    for (const scheme of [...spellings, 'Bearer   '])
      if ((await cachesOf({ authorization: `${scheme} ${attacker}` })) === 1) found.push(scheme);
    t.equal(found.length, spellings.length + 1, `spellings that lead to the same node: ${found}`);

    for (const [name, text] of attacks) {
      const client = new RawClient(port).send(text);
      await client.until(({ closed, text }) => closed || text.includes('\r\n\r\n'), 2_000);
      const wrong = await Promise.all(
        Array.from({ length: 12 }, (_, i) => askOf(i % 2 === 0 ? victim : attacker)),
      );
      t.same(
        wrong.filter((each) => each !== ''),
        [],
        `${name}: everybody has their own answer`,
      );
      t.comment(`${name}: ${client.text.split('\r\n')[0]}`);
      client.destroy();
    }
  });
}
