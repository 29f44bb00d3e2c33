/**
 * Three nodes behind each balancer that `bench/deploy` has a configuration for: owners stay with their node, streams pass as they come, and
 * a node that is killed under load costs its own owners their answers, only them, and only until it is back.
 */
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { freePort } from '../../bench/support/free-port.js';
import { type Balancer, balancers } from '../support/balancers.js';
import { said } from '../support/chat-client.js';
import { temporaryFolder } from '../support/service.js';
import { type ServiceProcess, startServiceProcess } from '../support/service-process.js';
import { until } from '../support/until.js';

const OWNERS = 24;
const WAIT_MS_MAX = 60_000;

t.setTimeout(600_000);

interface Owner {
  readonly name: string;
  readonly key: string;
}

/** As preface makes keys; names with hyphens too. */
const owners: readonly Owner[] = Array.from({ length: OWNERS }, (_, at) => {
  const name = `team-${at}`;
  return { name, key: `sk-${name}-${at.toString(16).padStart(56, '0')}` };
});

/** One on each node: where the ring puts an owner follows from the ports, and it may leave a node without any. */
const pinned: readonly (readonly [owner: string, node: number])[] = [
  ['team-0', 3],
  ['team-1', 1],
  ['team-2', 2],
];

interface Node {
  readonly port: number;
  readonly env: Readonly<Record<string, string>>;
  process: ServiceProcess;
}

/** Every node knows every key, so that only an owner's data tells which node serves the owner. */
async function startNode(t: Test): Promise<Node> {
  const port = await freePort();
  const env = {
    PREFACE_PORT: String(port),
    PREFACE_DATA_DIR: join(temporaryFolder(t), 'data'),
    PREFACE_API_KEYS: owners.map(({ name, key }) => `${name}:${key}`).join(','),
    PREFACE_TOKENIZE_THREADS: '1',
  };
  return { port, env, process: await startServiceProcess(t, {}, env) };
}

async function startBalancer(t: Test, balancer: Balancer, nodes: readonly Node[]): Promise<string> {
  const port = await freePort();
  const ports = nodes.map((node) => node.port);
  const errors = balancer.start(t, {
    port,
    nodes: ports,
    pinned,
  });
  const url = `http://127.0.0.1:${port}`;
  const answers = () => fetch(`${url}/metrics`).then(({ status }) => status === 404);
  await reached(answers).catch((cause: unknown) => {
    throw new Error(`${balancer.name} does not answer: ${errors()}`, { cause });
  });
  return url;
}

/** A node that is down fails a look, and does not end the wait. */
function reached(holds: () => Promise<boolean>): Promise<boolean> {
  return until(() => holds().catch(() => false), WAIT_MS_MAX, String(holds));
}

function call(url: string, { key }: Owner, method: string, path: string, body?: unknown) {
  return callAs({ authorization: `Bearer ${key}` }, url, method, path, body);
}

function callAs(
  key: Readonly<Record<string, string>>,
  url: string,
  method: string,
  path: string,
  body?: unknown,
) {
  return fetch(`${url}${path}`, {
    method,
    headers: { ...key, connection: 'close' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
}

/** A cache for each owner, made through the balancer; the node that has it is the owner's node. */
/** Requests to `/v1/messages` that a node has answered. */
async function messagesOf({ port }: Node): Promise<number> {
  const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  const found = text.matchAll(/^preface_http_requests_total\{[^}]*\/v1\/messages"[^}]*\} (\d+)$/gm);
  return [...found].reduce((sum, [, count]) => sum + Number(count), 0);
}

async function settle(url: string, nodes: readonly Node[]): Promise<Map<string, number>> {
  const places = new Map<string, number>();
  for (const owner of owners) {
    const messages = [{ role: 'system', content: `of ${owner.name}` }];
    const made = await call(url, owner, 'POST', '/v1/caching', { model: 'svc-v1', messages });
    if (made.status !== 200) throw new Error(`${made.status} ${await made.text()}`);
    await made.text();
    for (const [at, node] of nodes.entries()) {
      const list = await call(`http://127.0.0.1:${node.port}`, owner, 'GET', '/v1/caching');
      const { data } = (await list.json()) as { data: unknown[] };
      if (data.length > 0) places.set(owner.name, at);
    }
  }
  return places;
}

for (const balancer of balancers) {
  t.test(`three nodes behind ${balancer.name}`, { skip: balancer.missing }, (t) =>
    threeNodes(t, balancer),
  );
}

async function threeNodes(t: Test, balancer: Balancer): Promise<void> {
  const nodes = await Promise.all([startNode(t), startNode(t), startNode(t)]);
  const url = await startBalancer(t, balancer, nodes);
  const ready = () => Promise.all(owners.map((owner) => call(url, owner, 'GET', '/v1/models')));
  t.ok(await reached(async () => (await ready()).every(({ ok }) => ok)), 'all owners are served');
  const places = await settle(url, nodes);

  t.test('each owner is on one node, and every node has owners', async (t) => {
    t.equal(places.size, OWNERS);
    for (const at of nodes.keys()) {
      const count = [...places.values()].filter((place) => place === at).length;
      t.ok(count > 0, `node ${at + 1} has ${count} of ${OWNERS}`);
    }
    const isPinned = new Set(pinned.map(([name]) => name));
    for (const [name, node] of pinned) t.equal(places.get(name), node - 1, `${name} is pinned`);
    const byRing = [...places].filter(([name]) => !isPinned.has(name));
    t.ok(new Set(byRing.map(([, at]) => at)).size > 1, 'the ring spreads all others');
    for (const owner of owners) {
      for (let again = 0; again < 3; again += 1) {
        const list = await call(url, owner, 'GET', '/v1/caching');
        const { data } = (await list.json()) as { data: unknown[] };
        if (data.length !== 1) t.fail(`${owner.name} is elsewhere`);
      }
    }
  });

  t.test('a key in x-api-key reaches the same node', async (t) => {
    const counts = () => Promise.all(nodes.map((node) => messagesOf(node)));
    const before = await counts();
    const expected = [...before];
    for (const owner of owners) {
      const messages = [{ role: 'user', content: 'hi' }];
      const body = { model: 'svc-v1-8k', max_tokens: 1, messages };
      const key = { 'x-api-key': owner.key };
      const { status } = await callAs(key, url, 'POST', '/v1/messages', body);
      t.equal(status, 200, owner.name);
      const at = places.get(owner.name) ?? 0;
      expected[at] = (expected[at] ?? 0) + 1;
    }
    t.same(await counts(), expected);
  });

  t.test('a stream passes piece by piece, and a client that leaves is noticed', async (t) => {
    const [owner] = owners as [Owner];
    const body = said('/wait', { stream: true });
    const response = await call(url, owner, 'POST', '/v1/chat/completions', body);
    const reader = response.body?.getReader();
    const first = await reader?.read();
    t.match(new TextDecoder().decode(first?.value), /"role":"assistant"/, 'before its end');
    await reader?.cancel();
    const node = nodes[places.get(owner.name) ?? 0] as Node;
    const figures = async () => {
      const text = await (await fetch(`http://127.0.0.1:${node.port}/metrics`)).text();
      return /^preface_chats_running 0$/m.test(text);
    };
    t.ok(await reached(figures), 'the generation ends with its reader');
  });

  t.test('figures and administration are not forwarded', async (t) => {
    for (const path of ['/metrics', '/admin/v1/users', '/console']) {
      t.equal((await fetch(url + path)).status, 404, path);
    }
  });

  await t.test(
    'a node killed under load: only its owners, and only until it is back',
    async (t) => {
      await killUnderLoad(t, { url, nodes, places, downStatus: balancer.downStatus });
    },
  );
}

interface Outcome {
  readonly owner: string;
  readonly ok: boolean;
  readonly status: number | null;
}

interface Settled {
  readonly url: string;
  readonly nodes: readonly Node[];
  readonly places: ReadonlyMap<string, number>;
  readonly downStatus: number;
}

async function killUnderLoad(t: Test, { url, nodes, places, downStatus }: Settled): Promise<void> {
  const outcomes: Outcome[] = [];
  let ended = false;
  const chat = async (owner: Owner): Promise<Outcome> => {
    try {
      const body = said(`words of ${owner.name}`, { stream: true });
      const response = await call(url, owner, 'POST', '/v1/chat/completions', body);
      const text = await response.text();
      const { status } = response;
      return { owner: owner.name, ok: status === 200 && text.endsWith('data: [DONE]\n\n'), status };
    } catch {
      return { owner: owner.name, ok: false, status: null };
    }
  };
  const load = owners.map(async (owner) => {
    while (!ended) {
      outcomes.push(await chat(owner));
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  });
  const victim = nodes[1] as Node;
  const isHit = (name: string) => places.get(name) === 1;
  const counted = (hit: boolean, ok: boolean) =>
    outcomes.filter((each) => isHit(each.owner) === hit && each.ok === ok).length;
  await reached(async () =>
    owners.every(({ name }) => outcomes.some((each) => each.owner === name)),
  );
  t.equal(counted(true, false) + counted(false, false), 0, 'no error before');
  process.kill(victim.process.pid, 'SIGKILL');
  await victim.process.ended;
  t.ok(await reached(async () => counted(true, false) > 20), 'its owners see errors');
  const others = counted(false, true);
  t.ok(await reached(async () => counted(false, true) > others + 50), 'all others go on');
  victim.process = await startServiceProcess(t, {}, victim.env);
  const back = await reached(async () =>
    owners.every(({ name }) => outcomes.findLast((each) => each.owner === name)?.ok),
  );
  t.ok(back, 'its owners are served again');
  const since = outcomes.length;
  await reached(async () => outcomes.length > since + 5 * OWNERS);
  ended = true;
  await Promise.all(load);
  t.equal(outcomes.slice(since).filter(({ ok }) => !ok).length, 0, 'no error after');
  t.equal(counted(false, false), 0, 'none of the others ever saw one');
  const codes = new Set(outcomes.filter(({ ok }) => !ok).map(({ status }) => status));
  // A stream that was running is cut; what comes later is told to come back.
  t.ok(
    [...codes].every(
      (status) => status === 503 || status === 200 || status === 502 || status === null,
    ),
  );
  t.ok(codes.has(downStatus), `errors: ${[...codes].join(', ')}`);
  for (const owner of owners.filter(({ name }) => isHit(name))) {
    const list = await call(url, owner, 'GET', '/v1/caching');
    t.equal(((await list.json()) as { data: unknown[] }).data.length, 1, 'with what was kept');
  }
}
