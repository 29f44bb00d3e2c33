/**
 * Owns the question what the whole path of a chat costs without the model: parse, count, engine, answer.
 * It must never send the same text twice on the side with the bound, since known texts are not counted again.
 *
 * Findings of a profile (all on one core, µs of CPU per chat): the main process takes about 160, a quarter of it to render
 * the Jinja template, which builds a map of methods for every value. An engine process took about 100, most of it for
 * the hops between processes and threads: the engine now runs in a thread of the main process. A new text adds about 150 for its task in the
 * tokenization pool. A sampling profiler blames `writev` and the pool's `postTask`, where the woken process takes the core.
 */
import { chatRequest } from './support/chat.js';
import { httpSide } from './support/http-side.js';
import { LoadClient } from './support/load.js';
import { hasProc } from './support/processes.js';
import type { OpenQuestion, Question, Scale } from './support/question.js';
import { KEY, type Server, startRaw, startService } from './support/servers.js';

export const question: Question = {
  name: 'chat-echo',
  title: 'Chat on the echo engine, whole path',
  async open(scale) {
    if (!hasProc) return { skipped: 'it needs /proc' };
    const service = await startService({ core: 'server' });
    const { request } = chatRequest(QUESTION);
    const body = await answerOf(service, request.slice(request.indexOf('{')));
    const raw = await startRaw('server', { type: 'answer', body });
    return openQuestion(scale, service, raw);
  },
};

const QUESTION = 'What is the weather like in town 000000000 today?';

function openQuestion(scale: Scale, service: Server, raw: Server): OpenQuestion {
  const client = new LoadClient();
  const { request, serialAt } = chatRequest(QUESTION);
  const line = {
    unit: 'requests / CPU s',
    floors: ['raw uWebSockets.js'],
    better: 'more',
  } as const;
  return {
    sides: [
      httpSide({ name: 'chat, new text', server: service, client, request, serialAt, scale }),
      httpSide({
        name: 'chat, known text',
        server: service,
        client,
        request,
        serialAt: null,
        scale,
      }),
      httpSide({ name: 'raw uWebSockets.js', server: raw, client, request, serialAt, scale }),
    ],
    lines: [
      {
        label: 'a new text each time',
        subject: 'chat, new text',
        judged: 'ratio',
        must: 0.08,
        goal: 0.25,
        ...line,
      },
      {
        label: 'always the same text',
        subject: 'chat, known text',
        judged: 'ratio',
        must: null,
        goal: null,
        ...line,
      },
    ],
    notes: ['Other gateways are left out: none is installed with the service.'],
    close: async () => {
      await Promise.all([client.close(), service.close(), raw.close()]);
    },
  };
}

/** The raw server gives the service's answer, byte for byte. */
async function answerOf({ port }: Server, body: string): Promise<string> {
  const response = await fetch(`http://127.0.0.1:${port}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
    body,
  });
  const text = await response.text();
  if (response.status !== 200) throw new Error(`a chat answers ${response.status}: ${text}`);
  return text;
}
