/**
 * §7: the headers that tell a client how many of its requests a minute are left.
 */
import t, { type Test } from 'tap';
import { openWithSettings, post, said } from '../support/chat-client.js';

const RPM = 3;

/** As written: a number of seconds. */
function resetMs(t: Test, response: Response): number {
  const written = response.headers.get('x-ratelimit-reset-requests') ?? '';
  t.match(written, /^\d+(\.\d+)?s$/);
  return Number(written.slice(0, -1)) * 1000;
}

const head = (response: Response, name: string) =>
  response.headers.get(`x-ratelimit-${name}-requests`);

t.test(
  'one less is left after each chat, streamed or not, and all of it in a minute',
  async (t) => {
    const service = await openWithSettings(t, { accounts: { default: { rpm: RPM } } });
    const beganMs = performance.now();
    for (let left = RPM - 1; left >= 0; left -= 1) {
      const response = await post(service, said('x', { stream: left === 1 }));
      t.equal(response.status, 200);
      t.equal(head(response, 'limit'), String(RPM));
      t.equal(head(response, 'remaining'), String(left));
      // The newest use is this one: all is free a minute after it.
      const ms = resetMs(t, response);
      t.ok(ms <= 60_000 && ms > 60_000 - (performance.now() - beganMs) - 1_000, `${ms} ms`);
      t.equal(response.headers.get('x-ratelimit-limit-tokens'), null, 'tokens have no limit here');
      await response.text();
    }
    const refused = await post(service, said('x'));
    t.equal(refused.status, 429, 'who is refused is told as well');
    t.equal(head(refused, 'limit'), String(RPM));
    t.equal(head(refused, 'remaining'), '0');
    t.ok(resetMs(t, refused) <= 60_000);
    t.equal(refused.headers.get('x-ratelimit-limit-tokens'), null);
  },
);

t.test('who is over the tokens of a minute or a day is told what is left', async (t) => {
  for (const limited of [{ tpm: 100 }, { tpd: 100, tpm: 1_000 }]) {
    const service = await openWithSettings(t, { accounts: { default: limited } });
    const refused = await post(service, said('x', { max_tokens: 500 }));
    t.equal(refused.status, 429);
    t.equal(refused.headers.get('x-ratelimit-limit-tokens'), String(limited.tpm));
    t.equal(refused.headers.get('x-ratelimit-remaining-tokens'), String(limited.tpm));
    t.equal(refused.headers.get('x-ratelimit-reset-tokens'), '0s', 'nothing is used');
  }
});

t.test('each user has its own count, and who has no limit no header', async (t) => {
  const accounts = { users: { alice: { rpm: RPM } } };
  const service = await openWithSettings(t, { accounts });
  const first = await post(service, said('x'));
  t.equal(head(first, 'remaining'), String(RPM - 1));
  await first.text();
  const bob = { authorization: 'Bearer key-of-bob' };
  const other = await service.call('POST', '/chat/completions', said('x'), bob);
  for (const name of ['limit', 'remaining', 'reset']) t.equal(head(other, name), null, name);
  await other.text();
  t.equal(head(await post(service, said('x')), 'remaining'), String(RPM - 2), 'not one of bob’s');
});
