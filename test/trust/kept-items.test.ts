/**
 * Owns the proof that small requests cannot bring large kept items into memory unseen, nor pass a conversation's bounds together.
 * It must never depend on how long anything takes.
 */
import t from 'tap';
import { limits } from '../../src/limits/index.js';
import {
  type Item,
  type ResponseShown,
  read,
  responseOf,
  send,
} from '../support/responses-client.js';
import { openService, type TestService } from '../support/service.js';
import { until } from '../support/until.js';

t.setTimeout(240_000);

const MIB = 2 ** 20;
const adminKey = 'the-key-of-the-operator';
const service = await openService(t, { PREFACE_ADMIN_KEY: adminKey });
const user = (content: string, more = '') => ({ role: 'user', content, ...(more && { x: more }) });

/** A response whose input is large, but for its text. */
const large = async (bytes: number, fields = {}): Promise<ResponseShown> =>
  await responseOf(service, { input: [user('Hi', 'x'.repeat(bytes))], ...fields });

const reference = ({ output }: ResponseShown) => ({ type: 'item_reference', id: output[0]?.id });

const refusal = async (response: Response) => {
  const { error } = (await response.json()) as { error: { message: string; param: string } };
  return { status: response.status, ...error };
};

t.test('what one request brings back has the bound of a body', async (t) => {
  const [one, two, three] = [await large(3 * MIB), await large(3 * MIB), await large(3 * MIB)];
  const input = [user('And?'), reference(one), reference(two)];
  t.equal((await send(service, { input })).status, 200);
  const more = await refusal(await send(service, { input: [...input, reference(three)] }));
  t.match(more, { status: 400, param: 'input' });
  const size = new RegExp(`brings back [89][0-9]{6} bytes or more .* ${limits.bodyBytesMax}$`);
  t.match(more.message, size);
  let last = one;
  for (const _ of [2, 3]) last = await large(2.6 * MIB, { previous_response_id: last.id });
  t.match(await refusal(await send(service, { previous_response_id: last.id })), {
    status: 400,
    param: 'previous_response_id',
    message: size,
  });
});

t.test('it counts as memory of its account, however small the requests are', async (t) => {
  const [one, two] = [await large(3.5 * MIB), await large(3.5 * MIB)];
  const input = [user('And?'), reference(one), reference(two)];
  const sendAll = async () => {
    const sent = Array.from({ length: 40 }, () => send(service, { input, store: false }));
    return (await Promise.all(sent)).map(({ status }) => status);
  };
  let statuses = await sendAll();
  // A machine that is slow to send may end each before the next one comes.
  for (let crowds = 1; crowds < 10 && !statuses.includes(429); crowds += 1)
    statuses = await sendAll();
  const refused = statuses.filter((status) => status === 429).length;
  const held = limits.bodyBytesHeldOwnerMax / (7 * MIB);
  t.ok(refused > 0 && refused <= 40 - Math.floor(held), `${refused} of 40 are refused`);
  t.equal(statuses.filter((status) => status === 200).length, 40 - refused);
  t.equal((await send(service, { input })).status, 200, 'and the room is given back');
});

const heldBytes = async () => {
  const url = `${service.url.slice(0, -'/v1'.length)}/admin/v1/status`;
  const response = await fetch(url, { headers: { authorization: `Bearer ${adminKey}` } });
  const { requests } = await read<{ requests: { body_bytes_held: number } }>(response);
  return requests.body_bytes_held;
};

t.test('so does an input that is to be kept, until its response has ended', async (t) => {
  const bytes = 3 * MIB;
  const thoughts = { type: 'reasoning', summary: [], encrypted_content: 'x'.repeat(bytes) };
  const running = async (fields = {}) => {
    const sent = await send(service, { input: [thoughts, user('/wait')], stream: true, ...fields });
    if (sent.status !== 200) throw new Error(await sent.text());
    const reader = sent.body?.getReader();
    await reader?.read();
    return async () => await reader?.cancel();
  };
  await until(async () => (await heldBytes()) === 0);
  const endUnkept = await running({ store: false });
  t.ok((await heldBytes()) < bytes, 'what nobody keeps is not held');
  await endUnkept();
  const endKept = await running();
  const held = await heldBytes();
  t.ok(held >= bytes && held < 3 * bytes, `${held} bytes`);
  await endKept();
  await until(async () => (await heldBytes()) === 0);
});

t.test('values that were many small bodies are not one large one', async (t) => {
  const input = [{ ...user('Hi'), x: Array(40_000).fill([]) }];
  const first = await responseOf(service, { input });
  const second = await responseOf(service, { input, previous_response_id: first.id });
  const third = await refusal(await send(service, { input: 'x', previous_response_id: second.id }));
  t.match(third, { status: 400, message: /at most 65536 JSON values/ });
});

interface ItemList {
  readonly data: readonly Item[];
  readonly has_more: boolean;
}

async function conversation(place: TestService, fields = {}): Promise<string> {
  return (await read<{ id: string }>(await place.call('POST', '/conversations', fields))).id;
}

const allOf = async (id: string) => {
  const items: Item[] = [];
  for (let after = ''; ; after = `&after=${items.at(-1)?.id}`) {
    const path = `/conversations/${id}/items?limit=100&order=asc${after}`;
    const page = await read<ItemList>(await service.call('GET', path));
    items.push(...page.data);
    if (!page.has_more) return items;
  }
};

t.test('additions and removals at the same time', async (t) => {
  const id = await conversation(service, { items: [user('first')] });
  const path = `/conversations/${id}/items`;
  const added = await Promise.all(
    Array.from({ length: 30 }, async (_, at) => {
      const items = [user(`${at} a`), user(`${at} b`)];
      return await read<ItemList>(await service.call('POST', path, { items }));
    }),
  );
  const ids = added.flatMap(({ data }) => data.map((item) => item.id));
  t.equal(new Set(ids).size, 60, 'every item has an id of its own');
  const all = await allOf(id);
  t.same(new Set(all.map((item) => item.id)), new Set([all[0]?.id, ...ids]));
  const many = Array.from({ length: limits.conversationAddMax }, (_, at) => user(`many ${at}`));
  const { data } = await read<ItemList>(await service.call('POST', path, { items: many }));
  const gone = await Promise.all(
    data.slice(1).map(({ id: item }) => service.call('DELETE', `${path}/${item}`)),
  );
  t.ok(gone.every(({ status }) => status === 200));
  t.same(
    (await allOf(id)).slice(61).map((item) => item.id),
    [data[0]?.id],
    'no removal brings an item back',
  );
});

t.test('additions at the same time do not pass the bound together', async (t) => {
  const id = await conversation(service);
  const items = [user('Hi', 'x'.repeat(MIB))];
  const sent = Array.from({ length: 12 }, () =>
    service.call('POST', `/conversations/${id}/items`, { items }),
  );
  const statuses = (await Promise.all(sent)).map(({ status }) => status);
  t.equal(statuses.filter((status) => status === 200).length, 3, statuses.join(' '));
  const refused = await refusal(
    await service.call('POST', `/conversations/${id}/items`, { items }),
  );
  t.match(refused, { status: 400, message: /31\d{5} bytes, and would get 1\d{6} bytes more/ });
  t.equal((await allOf(id)).length, 3);
  const whole = { items: [user('Hi', 'x'.repeat(5 * MIB))] };
  t.equal((await service.call('POST', '/conversations', whole)).status, 400);
});

t.test('a reference is no item of a conversation', async (t) => {
  const items = [{ type: 'item_reference', id: 'msg_1' }];
  const made = await refusal(await service.call('POST', '/conversations', { items }));
  t.match(made, { status: 400, param: 'items[0]' });
});
