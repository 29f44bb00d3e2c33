/** Owns the check that an engine that asks a server keeps the contract of engines: here another preface is asked. */
import t from 'tap';
import { ANSWER_TOKENS_MIN, engineSuite } from '../../../src/plugin/test/engine.js';
import { model } from '../../support/chat-client.js';
import { openRemote, request, says, upstream } from '../../support/remote-engine.js';
import { aliceKey, openService } from '../../support/service.js';

t.test('keeps the contract of engines', async (t) => {
  const { url } = await openService(t);
  const prompt = `/repeat ${' '.repeat(2 * ANSWER_TOKENS_MIN)}`;
  // A piece of the echo is a word with its space: here a single byte, which is a token there.
  await engineSuite(t, async () => ({
    engine: await openRemote(t, { upstreams: [upstream(url, aliceKey, model)] }),
    model: 'm',
    prompt: new Uint32Array(prompt.length + 40),
    endIds: [257],
    conversation: request({ messages: [says('user', prompt)] }),
    raw: { text: 'x'.repeat(prompt.length + 40), stop: [], responseFormat: { type: 'text' } },
  }));
});
