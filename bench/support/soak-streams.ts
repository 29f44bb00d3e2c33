/**
 * Owns the streams of a soak: a fixed number on the real model, each replaced by a new one when it ends.
 * It must never count a stream as whole unless it ended properly.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { Agent, request } from 'undici';

export interface StreamFigures {
  whole: number;
  refused: number;
  chunks: number;
  /** Until the end of the last stream. */
  seconds: number;
  readonly firstMs: number[];
  readonly faults: string[];
}

export interface StreamOptions {
  readonly port: number;
  readonly key: string;
  readonly model: string;
  readonly streams: number;
  readonly untilMs: number;
}

const MAX_TOKENS = 64;
const REFUSED_WAIT_MS = 1_000;
const ANSWER_MS_MAX = 300_000;

export async function runStreams(options: StreamOptions): Promise<StreamFigures> {
  const figures: StreamFigures = {
    whole: 0,
    refused: 0,
    chunks: 0,
    seconds: 0,
    firstMs: [],
    faults: [],
  };
  const startMs = performance.now();
  const agent = new Agent({ headersTimeout: ANSWER_MS_MAX, bodyTimeout: ANSWER_MS_MAX });
  const repeat = async (stream: number) => {
    for (let turn = 0; performance.now() < options.untilMs; turn += 1) {
      const question = `${stream}-${turn}: tell me a short story of a lighthouse.`;
      try {
        await readStream(options, agent, question, figures);
      } catch (cause) {
        figures.faults.push(`stream: ${cause}`);
        await delay(REFUSED_WAIT_MS);
      }
    }
  };
  await Promise.all(Array.from({ length: options.streams }, (_, stream) => repeat(stream)));
  await agent.close();
  figures.seconds = (performance.now() - startMs) / 1_000;
  return figures;
}

async function readStream(
  { port, key, model }: StreamOptions,
  dispatcher: Agent,
  content: string,
  figures: StreamFigures,
): Promise<void> {
  const beganMs = performance.now();
  const messages = [{ role: 'user', content }];
  const { statusCode, body } = await request(`http://127.0.0.1:${port}/v1/chat/completions`, {
    method: 'POST',
    dispatcher,
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model, messages, stream: true, max_tokens: MAX_TOKENS }),
  });
  if (statusCode === 429) {
    figures.refused += 1;
    await body.text();
    await delay(REFUSED_WAIT_MS);
    return;
  }
  let text = '';
  let first = true;
  for await (const bytes of body) {
    text += String(bytes);
    if (first && text.includes('"content"')) {
      figures.firstMs.push(performance.now() - beganMs);
      first = false;
    }
  }
  figures.chunks += text.split('data: {').length - 1;
  if (statusCode === 200 && text.endsWith('data: [DONE]\n\n')) figures.whole += 1;
  else figures.faults.push(`stream: ${statusCode} ${text.slice(-300)}`);
}
