/**
 * Owns the proof that a damaged record of a user costs that record alone: the operator sees which one, and can put it right.
 * It must damage only folders of its own.
 */
import t, { type Test } from 'tap';
import { changeByte } from '../support/changed-byte.js';
import { answerTo, said } from '../support/chat-client.js';
import { aliceKey, openService, type TestService } from '../support/service.js';
import { until } from '../support/until.js';

t.setTimeout(120_000);

const adminKey = 'the-key-of-the-operator';

interface User {
  readonly id: string;
  readonly state: string;
  readonly damaged?: readonly string[];
}

async function ask(service: TestService, method: string, path: string): Promise<Response> {
  const url = `${service.url.slice(0, -3)}/admin/v1/users${path}`;
  return await fetch(url, { method, headers: { authorization: `Bearer ${adminKey}` } });
}

async function users(t: Test, service: TestService): Promise<ReadonlyMap<string, User>> {
  const response = await ask(service, 'GET', '');
  t.equal(response.status, 200);
  const { data } = (await response.json()) as { data: User[] };
  return new Map(data.map((user) => [user.id, user]));
}

/** With a stored grant and a stored key of carol, after chats of alice and bob. */
async function used(t: Test): Promise<{ dataDir: string; key: string; keyId: string }> {
  const service = await openService(t, { PREFACE_ADMIN_KEY: adminKey });
  const made = await ask(service, 'POST', '/carol/keys');
  const { key, id: keyId } = (await made.json()) as { key: string; id: string };
  await ask(service, 'POST', '/carol/suspend');
  await answerTo(service, said('words'));
  await service.close();
  return { dataDir: service.dataDir, key, keyId };
}

const reopened = (t: Test, PREFACE_DATA_DIR: string) =>
  openService(t, { PREFACE_ADMIN_KEY: adminKey, PREFACE_DATA_DIR });

const asKey = async (service: TestService, key: string) => {
  const headers = { authorization: `Bearer ${key}` };
  return (await service.call('GET', '/models', undefined, headers)).status;
};

t.test(
  'a damaged grant closes its account, the list names it, and a change writes it anew',
  async (t) => {
    const { dataDir, key } = await used(t);
    await changeByte(dataDir, ['account', 'carol'], 'keys');
    const service = await reopened(t, dataDir);
    const all = await users(t, service);
    t.match(all.get('carol'), { state: 'suspended', damaged: ['grant'] });
    t.match(all.get('alice'), { state: 'active', damaged: undefined });
    t.equal(await asKey(service, key), 403, 'it may have been suspended');
    t.equal(await asKey(service, aliceKey), 200);
    t.equal((await ask(service, 'POST', '/carol/resume')).status, 200);
    t.equal(await asKey(service, key), 200);
    t.match((await users(t, service)).get('carol'), { state: 'active', damaged: undefined });
  },
);

t.test(
  'a damaged record of what was used costs what it said, and the list names it until it is written anew',
  async (t) => {
    const { dataDir, key } = await used(t);
    await changeByte(dataDir, ['account', 'alice']);
    const service = await reopened(t, dataDir);
    const all = await users(t, service);
    t.match(all.get('alice'), { damaged: ['usage'] });
    t.match(all.get('carol'), { damaged: undefined });
    t.equal((await service.call('POST', '/chat/completions', said('words'))).status, 200);
    const isWhole = async () => (await users(t, service)).get('alice')?.damaged === undefined;
    await until(isWhole, 60_000, 'a whole record');
    const told = service.log.filter((line) => line.includes("the record of 'alice' is damaged"));
    t.equal(told.length, 1, 'the operator is told');
    t.equal((await ask(service, 'POST', '/carol/resume')).status, 200);
    t.equal(await asKey(service, key), 200);
  },
);

t.test('a damaged key opens nothing, is listed, and can be revoked', async (t) => {
  const { dataDir, key, keyId } = await used(t);
  await changeByte(dataDir, ['key'], 'keys');
  const service = await reopened(t, dataDir);
  await ask(service, 'POST', '/carol/resume');
  t.equal(await asKey(service, key), 500);
  const list = async () =>
    ((await (await ask(service, 'GET', '/carol/keys')).json()) as { data: object[] }).data;
  t.match(await list(), [{ id: keyId, user: 'carol', shown: '(damaged)' }]);
  t.equal((await ask(service, 'DELETE', `/alice/keys/${keyId}`)).status, 404, 'of another user');
  t.equal((await ask(service, 'DELETE', `/carol/keys/${keyId}`)).status, 200);
  t.same(await list(), []);
  t.equal(await asKey(service, key), 401);
  t.equal((await ask(service, 'DELETE', `/carol/keys/${keyId}`)).status, 404);
});
