/**
 * Owns the question what one chunk of a stream costs on its way from the engine to the socket, with 200 streams open.
 * It must never count the opening or the end of a stream: it measures only the time between.
 *
 * Findings of a profile: the main process spends 60 % of a paced chunk in the socket write, as the raw loop does. An
 * engine process spent half of its time copying objects between its threads. Both engines here now run in a thread of the main process.
 * At full speed many chunks share a write, and the crossings cost almost nothing.
 */

import { MODEL, streamRequest } from './support/chat.js';
import { checkOf } from './support/check.js';
import { STEP_MS, WORD } from './support/engine-paced.js';
import { LoadClient } from './support/load.js';
import { builtFile, cpuSeconds, hasProc } from './support/processes.js';
import type { Question, Sample, Scale, Side } from './support/question.js';
import { type Server, startRaw, startService } from './support/servers.js';

const STREAMS = 200;
/** A window that lets a stream run for the whole measurement. */
const WINDOW = 16 * 2 ** 20;

export const question: Question = {
  name: 'stream-chunks',
  title: `Streaming, ${STREAMS} streams`,
  async open(scale) {
    if (!hasProc) return { skipped: 'it needs /proc' };
    const [paced, free] = await Promise.all([
      startService({ core: 'server', config: config(builtFile('bench/support/engine-paced.js')) }),
      startService({ core: 'server', config: config('echo') }),
    ]);
    const rawPaced = await startRaw('server', { type: 'stream', chunk: CHUNK, paceMs: STEP_MS });
    const rawFree = await startRaw('server', { type: 'stream', chunk: CHUNK, paceMs: 0 });
    const client = new LoadClient();
    const side = (name: string, server: Server): Side => ({
      name,
      measure: () => measureStreams(server, client, scale),
    });
    const line = { unit: 'µs CPU / chunk', better: 'less', judged: 'value' } as const;
    return {
      sides: [
        side('paced', paced),
        side('raw write loop, paced', rawPaced),
        side('free', free),
        side('raw write loop, free', rawFree),
      ],
      lines: [
        {
          label: `a token a stream each ${STEP_MS} ms`,
          subject: 'paced',
          floors: ['raw write loop, paced'],
          must: 20,
          goal: 8,
          ...line,
        },
        {
          label: 'as fast as it goes',
          subject: 'free',
          floors: ['raw write loop, free'],
          must: 20,
          goal: 8,
          ...line,
        },
      ],
      notes: [
        'The CPU is that of all processes of the service; both engines run in threads of it.',
      ],
      close: async () => {
        const servers = [paced, free, rawPaced, rawFree];
        await Promise.all([client.close(), ...servers.map((server) => server.close())]);
      },
    };
  },
};

const MORE_MAX = 100;

/** The chunk that the service sends for each word, with an id of the same length. */
const CHUNK = `data: ${JSON.stringify({
  id: `chatcmpl-${'0'.repeat(32)}`,
  object: 'chat.completion.chunk',
  created: 1_800_000_000,
  model: MODEL,
  choices: [{ index: 0, delta: { content: WORD }, finish_reason: null }],
})}\n\n`;

function config(engine: string): object {
  return { models: { [MODEL]: { engine, tokenizer: 'bytes', weights: null, window: WINDOW } } };
}

async function measureStreams(server: Server, client: LoadClient, scale: Scale): Promise<Sample> {
  const connections = scale.tiny ? 8 : STREAMS;
  const request = streamRequest(MODEL, `/repeat ${WORD}`, WINDOW - 1_000);
  const task = { port: server.port, connections, ms: scale.ms, requests: null, serialAt: null };
  await client.openStreams({ ...task, request });
  const pids = server.tree();
  const [before, beforeS] = [await client.streamCount(), cpuSeconds(pids)];
  const beganMs = performance.now();
  const streamed = async () => {
    await new Promise((resolve) => setTimeout(resolve, scale.ms));
    return [await client.streamCount(), cpuSeconds(pids)] as const;
  };
  let [after, afterS] = await streamed();
  // On a busy machine nothing may be sent in a short time.
  const isNothing = () => after.chunks === before.chunks || afterS === beforeS;
  for (let more = 0; isNothing() && more < MORE_MAX; more++) {
    [after, afterS] = await streamed();
  }
  client.closeStreams();
  const chunks = after.chunks - before.chunks;
  return {
    value: ((afterS - beforeS) * 1e6) / chunks,
    errors: after.errors + (chunks === 0 ? 1 : 0),
    check: checkOf(CHUNK),
    beside: { 'chunks/s': (chunks * 1000) / (performance.now() - beganMs) },
  };
}
