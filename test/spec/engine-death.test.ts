/**
 * An engine process that is killed costs its running chats, and no other: the service answers again as soon as the next runs.
 */
import t from 'tap';
import { answerTo, invalidType, post, refusal, said } from '../support/chat-client.js';
import { enginePid } from '../support/engine-pid.js';
import { openService } from '../support/service.js';
import { until } from '../support/until.js';

// Two processes are started, on a machine that may be busy.
const START_MS_MAX = 60_000;
t.setTimeout(3 * START_MS_MAX);

const service = await openService(t, { PREFACE_ENGINE_PROCESS: 'true' });

async function figures(): Promise<string> {
  return await (await fetch(new URL('/metrics', service.url))).text();
}

/** A stream that has begun. */
async function begun(text: string) {
  const response = await post(service, said(text, { stream: true }));
  const reader = response.body?.getReader();
  if (reader === undefined) throw new Error('no body');
  const first = new TextDecoder().decode((await reader.read()).value);
  return { reader, first };
}

t.test('a killed engine: an error event, a 500, and answers again', async (t) => {
  const stream = await begun('/wait');
  const whole = post(service, said('/wait'));
  await until(async () => /^preface_chats_running 2$/m.test(await figures()));
  t.equal(await answerTo(service, said('alive')), 'alive');
  const pid = enginePid();
  t.ok(pid > 1);
  process.kill(pid, 'SIGKILL');

  let text = stream.first;
  for (;;) {
    const { done, value } = await stream.reader.read();
    if (done) break;
    text += new TextDecoder().decode(value);
  }
  t.match(text, /\n\ndata: \{"error":\{"type":"server_error","message":"[^"]+"\}\}\n\n$/);
  t.notMatch(text, /\[DONE\]/);
  const found = await refusal(t, await whole);
  t.match(found, { status: 500, type: 'server_error' });

  // What needs no engine is answered meanwhile.
  t.equal((await service.call('GET', '/models')).status, 200);
  t.match(await refusal(t, await post(service, said(''))), { status: 400, type: invalidType });

  const answered = async (): Promise<string> => {
    const response = await post(service, said('again'));
    if (response.status === 200) return await response.text();
    const { status } = await refusal(t, response);
    t.ok(status === 500 || status === 503, `${status} while it starts`);
    return '';
  };
  const answer = await until(answered, START_MS_MAX);
  t.match(answer, /"content":"again"/);
  // The next one may answer before the system has put the first away.
  const told = () => service.log.find((line) => /inference process ended.*SIGKILL/.test(line));
  t.match(
    await until(told, START_MS_MAX),
    /the one that stood by takes|next start in 100 ms/,
    'it was not waited for long',
  );
  t.not(enginePid(), pid, 'in another process');
  t.match(await figures(), 'preface_worker_restarts_total{worker="inference"} 1');
});
