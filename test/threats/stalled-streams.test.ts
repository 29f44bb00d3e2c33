/**
 * Owns the proof that readers who take their streams by drops keep no place in the engine from another account.
 * It must read so that the service sees each of them go on: one who takes nothing at all is cut in any case.
 */
import { connect } from 'node:net';
import t, { type Test } from 'tap';
import type { WireCompletion } from '../../src/protocol/completion.js';
import { asBob } from '../support/cache-client.js';
import type { Fields } from '../support/chat-client.js';
import { openSingle } from '../support/engine-turns.js';
import { aliceKey, type TestService } from '../support/service.js';
import { until } from '../support/until.js';

t.setTimeout(120_000);

const STREAMS = 3;
const SIP_MS = 500;
/** With less the system does not see it read, and the stream is cut in any case. */
const SIP_BYTES = 256 * 1024;
/** Two of the streams are cut before it. By themselves they go on for a minute and more. */
const WAIT_MS_MAX = 40_000;

/** Its echo has some 60 MB. */
const long: Fields = {
  model: 'svc-v1-128k',
  messages: [{ role: 'user', content: 'a '.repeat(30_000) }],
  max_tokens: 60_000,
  n: 5,
  temperature: 1,
  logprobs: true,
  stream: true,
};

/** Takes a little now and then. */
function sip(t: Test, service: TestService, body: Fields): void {
  const text = JSON.stringify(body);
  const socket = connect(Number(new URL(service.url).port), '127.0.0.1');
  socket.on('error', () => {});
  let taken = 0;
  socket.on('data', ({ length }) => {
    taken += length;
    if (taken >= SIP_BYTES) socket.pause();
  });
  const timer = setInterval(() => {
    taken = 0;
    socket.resume();
  }, SIP_MS);
  t.teardown(() => {
    clearInterval(timer);
    socket.destroy();
  });
  socket.write(
    `POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${aliceKey}\r\n` +
      `content-type: application/json\r\ncontent-length: ${text.length}\r\n\r\n${text}`,
  );
}

/** Chats that run or wait. */
async function chats(service: TestService): Promise<number> {
  const text = await (await fetch(service.url.replace(/\/v1$/, '/metrics'))).text();
  const figures = [...text.matchAll(/^preface_chats_(?:running|waiting) (\d+)$/gm)];
  return figures.reduce((sum, [, figure]) => sum + Number(figure), 0);
}

t.test('streams that are read by drops make room for another account', async (t) => {
  const service = await openSingle(t);
  for (let i = 0; i < STREAMS; i += 1) sip(t, service, long);
  await until(async () => (await chats(service)) === STREAMS);
  const beganMs = performance.now();
  const ask = { model: 'svc-v1-128k', messages: [{ role: 'user', content: 'hello' }] };
  const response = await service.call('POST', '/chat/completions', ask, asBob);
  const made = (await response.json()) as WireCompletion;
  const tookMs = performance.now() - beganMs;
  t.comment(`it took ${tookMs.toFixed(0)} ms`);
  t.equal(made.choices[0]?.message.content, 'hello');
  t.ok(tookMs < WAIT_MS_MAX, `another's chat took ${tookMs.toFixed(0)} ms`);
  const left = await chats(service);
  t.ok(left >= 1, `of ${STREAMS} streams ${left} are left: one gives way at a time`);
});
