/**
 * Chats that wait for an engine: owners in turn, no more than fit, and none lost with an engine that ends.
 */
import t from 'tap';
import { post, refusal, said } from '../support/chat-client.js';
import { enginePid } from '../support/engine-pid.js';
import { begun, openSingle } from '../support/engine-turns.js';
import { bobKey, type TestService } from '../support/service.js';
import { until } from '../support/until.js';

// Hundreds of requests on a machine that may be busy.
t.setTimeout(180_000);

const asBob = { authorization: `Bearer ${bobKey}` };

async function figure(service: TestService, name: string): Promise<number> {
  const text = await (await fetch(new URL('/metrics', service.url))).text();
  const line = text.split('\n').find((each) => each.startsWith(`${name} `));
  return Number(line?.slice(name.length + 1));
}

const waiting = 'preface_queue_chats{model="svc-v1-8k"}';
const work = 'preface_queue_tokens{model="svc-v1-8k"}';

/** The only place is taken until the answer is cancelled. */
async function heldUp(service: TestService): Promise<Response> {
  return await post(service, said('/wait', { stream: true }));
}

t.test('500 chats of one account delay the one of another by one turn', async (t) => {
  const service = await openSingle(t);
  const first = await heldUp(service);
  const all = Array.from({ length: 500 }, async (_, i) => {
    const response = await post(service, said(`${i}`, { max_tokens: 100 }));
    await response.text();
    return response.status;
  });
  await until(async () => (await figure(service, waiting)) === 500, 60_000);
  t.ok((await figure(service, work)) > 500 * 100);
  const bobs = service.call('POST', '/chat/completions', said('of bob'), asBob);
  await until(async () => (await figure(service, waiting)) === 501, 60_000);
  t.same(begun(service), ['alice']);
  await first.body?.cancel();
  t.equal((await bobs).status, 200);
  t.same(begun(service).slice(0, 3), ['alice', 'alice', 'bob']);
  t.ok((await Promise.all(all)).every((status) => status === 200));
  t.equal(await figure(service, waiting), 0);
  t.equal(await figure(service, work), 0);
});

t.test('an account with a salt for each prefix waits as one account', async (t) => {
  const service = await openSingle(t, { limits: { inferQueue: 4 } });
  const first = await heldUp(service);
  const all = Array.from({ length: 3 }, async (_, i) => {
    const response = await post(service, said(`${i}`, { cache_salt: `salt ${i}` }));
    await response.text();
    return response.status;
  });
  const bobs = [1, 2].map(() =>
    service.call('POST', '/chat/completions', said('of bob'), asBob).then(({ status }) => status),
  );
  await until(async () => (await figure(service, waiting)) === 4, 60_000);
  await first.body?.cancel();
  t.same(await Promise.all(bobs), [200, 200], 'one account has half of the queue at most');
  t.same(
    (await Promise.all(all)).toSorted((a, b) => a - b),
    [200, 200, 429],
  );
  const owners = begun(service).map((owner) => owner.split(' ')[0]);
  t.same(owners.slice(1), ['alice', 'bob', 'alice', 'bob'], 'and every other turn');
});

t.test('what cannot wait is refused with a time, and what leaves makes room', async (t) => {
  const service = await openSingle(t, { limits: { inferQueue: 4 } });
  const first = await heldUp(service);
  const leaves = new AbortController();
  const chat = (text: string, signal: AbortSignal) =>
    fetch(`${service.url}/chat/completions`, {
      method: 'POST',
      headers: { authorization: 'Bearer key-of-alice', 'content-type': 'application/json' },
      body: JSON.stringify(said(text)),
      signal,
    });
  const gone = [chat('one', leaves.signal), chat('two', leaves.signal)];
  await until(async () => (await figure(service, waiting)) === 2, 60_000);
  for (const stream of [false, true]) {
    const response = await post(service, said('three', { stream }));
    t.match(response.headers.get('retry-after'), /^[1-9]\d*$/);
    t.match(await refusal(t, response), {
      status: 429,
      type: 'engine_overloaded_error',
      message: 'The engine is currently overloaded, please try again later',
    });
  }
  const bobs = service.call('POST', '/chat/completions', said('of bob'), asBob);
  await until(async () => (await figure(service, waiting)) === 3, 60_000);
  leaves.abort();
  await Promise.allSettled(gone);
  await until(async () => (await figure(service, waiting)) === 1, 60_000);
  const next = post(service, said('four'));
  await until(async () => (await figure(service, waiting)) === 2, 60_000);
  await first.body?.cancel();
  t.same([(await bobs).status, (await next).status], [200, 200]);
  t.equal(begun(service).length, 3, 'who had left was never begun');
});

t.test('what waits outlives an engine that is killed', async (t) => {
  const service = await openSingle(t);
  const first = post(service, said('/wait'));
  await until(() => begun(service).length === 1);
  const second = post(service, said('still here'));
  await until(async () => (await figure(service, waiting)) === 1, 60_000);
  process.kill(enginePid(), 'SIGKILL');
  t.equal((await first).status, 500);
  t.equal((await second).status, 200);
});
