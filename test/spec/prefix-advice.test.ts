/**
 * Owns the proof that a client is told where its prompts keep missing, and that the rule cures it.
 * It must see prompts only as a client sends them; the service runs in this process on the echo engine.
 */
import t, { type Test } from 'tap';
import { asBob } from '../support/cache-client.js';
import { model } from '../support/chat-client.js';
import { openService, type TestService } from '../support/service.js';

t.setTimeout(120_000);

const rules = 'You answer from this handbook. '.repeat(20);
const billing = (at: number) =>
  `x-anthropic-billing-header: cc_version=2.1.7.a${at}f; cc_entrypoint=cli; cch=0000${at};`;
const clock = (at: number) => `Current date and time: 2026-11-22 14:0${at}:31`;

interface Told {
  readonly advice: string | null;
  readonly text: string;
}

async function chat(service: TestService, system: string, headers = {}, id = model): Promise<Told> {
  const messages = [
    { role: 'system', content: system },
    { role: 'user', content: 'Hello' },
  ];
  const body = { model: id, messages };
  const response = await service.call('POST', '/chat/completions', body, headers);
  const text = await response.text();
  if (response.status !== 200) throw new Error(text);
  return { advice: response.headers.get('svc-context-cache-advice'), text };
}

async function advices(service: TestService, headers = {}, path = '/users/me/advice') {
  const response = await service.call('GET', path, undefined, headers);
  return ((await response.json()) as { data: Record<string, unknown>[] }).data;
}

/** What a client that sends one such line with each request is told. */
async function told(t: Test, system: (at: number) => string): Promise<(string | null)[]> {
  const service = await openService(t);
  const answers: Told[] = [];
  for (let at = 1; at < 6; at++) answers.push(await chat(service, system(at)));
  return answers.map(({ advice }) => advice);
}

t.test('a clock in a system prompt is named once, with its place and its cost', async (t) => {
  const service = await openService(t, { PREFACE_ADMIN_KEY: 'key-of-the-operator' });
  const ask = (at: number, headers = {}) => chat(service, `Hi!\n${clock(at)}\n${rules}`, headers);
  t.equal((await ask(1)).advice, null);
  t.equal((await ask(2)).advice, null, 'once is chance');
  const { advice } = await ask(3);
  t.match(
    advice,
    /^messages\[0\]\.content at character 42 differs from request to request; \d+ tokens/,
  );
  t.equal((await ask(4)).advice, null, 'it is said once');
  t.equal(service.log.filter((line) => line.includes('prompts of alice: ')).length, 1);
  const [place, ...others] = await advices(service);
  t.match(place, { object: 'prompt.advice', message: 0, character: 42, requests: 3, model });
  t.ok(Number(place?.tokens) > 2 * rules.length, `${place?.tokens}`);
  t.strictSame(others, []);
  t.strictSame(await advices(service, asBob), [], 'nobody else is told');
  t.equal((await service.call('GET', '/users/alice/advice', undefined, asBob)).status, 403);
  const operator = { authorization: 'Bearer key-of-the-operator' };
  const root = service.url.replace(/\/v1$/, '');
  const response = await fetch(`${root}/admin/v1/users/alice/advice`, { headers: operator });
  t.match(await response.json(), { data: [{ character: 42, requests: 3 }] });
});

t.test('the volatile lines that clients write, each at its place', async (t) => {
  const first = (advice: (string | null)[]) =>
    advice.map((text) => text?.split(' differs')[0] ?? null);
  const at = (character: number) => `messages[0].content at character ${character}`;
  const places = [null, null, null, null, null] as (string | null)[];
  const said = (place: string) => places.with?.(2, place) ?? [null, null, place, null, null];
  t.strictSame(
    first(await told(t, (n) => `${billing(n)}\n${rules}`)),
    said(at(billing(1).indexOf('1f'))),
  );
  t.strictSame(first(await told(t, (n) => `Turn: ${n}\n${rules}`)), said(at(6)));
  t.strictSame(first(await told(t, (n) => `${rules}\nTurn: ${n}`)), places, 'nothing behind it');
  t.strictSame(first(await told(t, () => rules)), places, 'nothing differs');
});

t.test('two owners with the same prompts are two owners', async (t) => {
  const service = await openService(t);
  for (let at = 1; at < 4; at++) {
    const headers = at % 2 === 0 ? asBob : {};
    t.equal((await chat(service, `${clock(at)}\n${rules}`, headers)).advice, null);
  }
});

t.test('with the rule the lines stand behind the prompt, and prompts begin alike', async (t) => {
  const service = await openService(t, { PREFACE_VOLATILE: 'move' });
  const ask = (at: number, headers = {}) =>
    chat(service, `${billing(at)}\n${clock(at)}\n${rules}`, headers);
  for (let at = 1; at < 5; at++) {
    const { advice, text } = await ask(at);
    t.equal(advice, null);
    // The echo engine repeats the last message.
    t.match(text, `Hello\\n\\n${billing(at)}\\n${clock(at)}`);
  }
  t.strictSame(await advices(service), []);
  const kept = await ask(5, { 'X-Svc-Context-Cache-Volatile': 'keep' });
  t.notMatch(kept.text, /cc_version/, 'a request may say otherwise');
  const wrong = { 'X-Svc-Context-Cache-Volatile': 'maybe' };
  await t.rejects(ask(6, wrong), /X-Svc-Context-Cache-Volatile must be move or keep, got 'maybe'/);
});

t.test('a large body, and one request that asks for the rule', async (t) => {
  const service = await openService(t);
  const long = `${rules}`.repeat(110);
  const ask = (at: number, headers = {}) =>
    chat(service, `${clock(at)}\n${long}`, headers, 'svc-v1-128k');
  for (let at = 1; at < 3; at++) await ask(at);
  t.match((await ask(3)).advice, /^messages\[0\]\.content at character 38/);
  const { text } = await ask(4, { 'X-Svc-Context-Cache-Volatile': 'move' });
  t.match(text, `Hello\\n\\n${clock(4)}`);
});
