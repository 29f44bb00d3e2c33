/**
 * Owns the proof that a key which is revoked, and an account which is suspended, stop what already runs, in every form of an answer.
 * It must never wait longer than the service says that this takes, beyond what a busy machine needs.
 */
import t from 'tap';
import { created, line } from '../support/batch-client.js';
import { type Fields, model, said } from '../support/chat-client.js';
import { askOperator, asOperator } from '../support/operator-client.js';
import { aliceKey, bobKey, openService } from '../support/service.js';
import { SocketClient } from '../support/socket-client.js';
import { until } from '../support/until.js';

t.setTimeout(120_000);

const service = await openService(t, asOperator);

/** Says nothing until it is cancelled. */
const endless = said('/wait');
const bearer = (key: string) => ({ authorization: `Bearer ${key}` });
const chat = (key: string, stream: boolean) =>
  service.call('POST', '/chat/completions', { ...endless, stream }, bearer(key));

async function operator(method: string, path: string, body?: Fields): Promise<Fields> {
  const response = await askOperator(service, method, `/admin/v1${path}`, body);
  const text = await response.text();
  if (response.status !== 200) throw new Error(text);
  return JSON.parse(text) as Fields;
}

async function untilRunning(count: number): Promise<void> {
  const all = async () => {
    const { chats } = (await operator('GET', '/status')) as { chats: { running: number } };
    return chats.running >= count;
  };
  await until(all, 30_000, `${count} chats run`);
}

t.test('of a suspended account all that runs ends, and of nobody else', async (t) => {
  const others = await chat(bobKey, true);
  const whole = chat(aliceKey, false);
  const stream = (await chat(aliceKey, true)).text();
  const behind = await service.call('POST', '/responses', {
    model,
    input: '/wait',
    background: true,
  });
  const { id } = (await behind.json()) as { id: string };
  const socket = await new SocketClient(t, `${service.url}/responses`, bearer(aliceKey)).opened();
  socket.send({ type: 'response.create', model, input: '/wait' });
  const batch = await created(service, [line('a', endless)]);
  await untilRunning(6);
  await operator('POST', '/users/alice/suspend');
  const refusal = await whole;
  t.equal(refusal.status, 403);
  t.match(await refusal.text(), 'is not active, current state: suspended');
  t.match(await stream, /"error":\{[^}]*current state: suspended/);
  t.equal((await socket.untilClosed()).code, 1008);
  const kept = async () => {
    const { data } = (await operator('GET', '/users/alice/batches')) as { data: Fields[] };
    return data.find((each) => each.id === batch.id && each.status === 'cancelled');
  };
  t.match(await until(kept, 30_000, 'the batch is cancelled'), {
    errors: [{ code: 'account_not_active' }],
  });
  await operator('POST', '/users/alice/resume');
  t.match(await (await service.call('GET', `/responses/${id}`)).json(), { status: 'cancelled' });
  await untilRunning(1);
  await others.body?.cancel();
});

t.test('of a revoked key what runs ends, and of another key of the user nothing', async (t) => {
  const { key, id } = (await operator('POST', '/users/alice/keys', {})) as Record<string, string>;
  const other = await chat(aliceKey, true);
  const stream = (await chat(key ?? '', true)).text();
  const whole = chat(key ?? '', false);
  await untilRunning(3);
  await operator('DELETE', `/users/alice/keys/${id}`);
  t.match(await stream, /"error":\{[^}]*Incorrect API key/);
  t.equal((await whole).status, 401);
  await untilRunning(1);
  await other.body?.cancel();
});

t.test('a draining account begins nothing, and what runs goes on', async (t) => {
  const { key, id } = (await operator('POST', '/users/bob/keys', {})) as Record<string, string>;
  const mine = await chat(aliceKey, true);
  const probe = (await chat(key ?? '', true)).text();
  await untilRunning(2);
  await operator('POST', '/users/alice', { state: 'draining' });
  t.equal((await chat(aliceKey, false)).status, 403);
  await operator('DELETE', `/users/bob/keys/${id}`);
  await probe;
  // The same look that ended that one has seen this one.
  await untilRunning(1);
  await operator('POST', '/users/alice/resume');
  await mine.body?.cancel();
});
