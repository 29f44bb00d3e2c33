/**
 * Owns the question what the HTTP layer alone costs: head, key, route and answer of a GET.
 * It must never measure a route that reads a body or waits for anything.
 *
 * Findings of a profile: of about 15 µs, the kernel takes two thirds for read and write, as in the raw server. Of the rest,
 * a sixth matches a path with a variable in it (it is split at each slash), and an eighth copies the head.
 */
import { MODEL } from './support/chat.js';
import { httpSide } from './support/http-side.js';
import { LoadClient, requestText } from './support/load.js';
import { hasProc } from './support/processes.js';
import type { Question } from './support/question.js';
import { KEY, startRaw, startService } from './support/servers.js';

const PATH = `/v1/models/${MODEL}`;

export const question: Question = {
  name: 'get-model',
  title: 'GET of a model',
  async open(scale) {
    if (!hasProc) return { skipped: 'it needs /proc' };
    const service = await startService({ core: 'server' });
    const headers = { authorization: `Bearer ${KEY}` };
    const response = await fetch(`http://127.0.0.1:${service.port}${PATH}`, { headers });
    const raw = await startRaw('server', { type: 'answer', body: await response.text() });
    const client = new LoadClient();
    const load = { client, request: requestText('GET', PATH), serialAt: null, scale };
    return {
      sides: [
        httpSide({ name: 'GET model', server: service, ...load }),
        httpSide({ name: 'raw uWebSockets.js', server: raw, ...load }),
      ],
      lines: [
        {
          label: 'GET model',
          subject: 'GET model',
          unit: 'requests / CPU s',
          floors: ['raw uWebSockets.js'],
          judged: 'ratio',
          better: 'more',
          must: 0.45,
          goal: 0.7,
        },
      ],
      notes: [],
      close: async () => {
        await Promise.all([client.close(), service.close(), raw.close()]);
      },
    };
  },
};
