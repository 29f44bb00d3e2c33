/**
 * Owns the reading of a streamed chat: its pieces, its usage, and when the first content came.
 * It must never take the empty first chunk for content.
 */
import { Refused } from './api.js';

/** @typedef {import('./api.js').Json} Json */

/**
 * @param {import('./api.js').Api} api
 * @param {object} chat without `stream`
 * @param {(piece: string) => void} onPiece
 * @returns {Promise<{ firstContentMs: number | null, usage: Json | null, cacheStatus: string | null }>}
 */
export async function streamChat(api, chat, onPiece) {
  const beganMs = performance.now();
  const body = { ...chat, stream: true, stream_options: { include_usage: true } };
  const response = await api.call('POST', '/v1/chat/completions', body);
  /** @type {number | null} */
  let firstContentMs = null;
  /** @type {Json | null} */
  let usage = null;
  for await (const event of events(response)) {
    if (event.error) throw new Refused(response.status, event.error.message);
    usage = event.usage ?? usage;
    const piece = event.choices?.[0]?.delta?.content;
    if (!piece) continue;
    firstContentMs ??= performance.now() - beganMs;
    onPiece(piece);
  }
  return { firstContentMs, usage, cacheStatus: response.headers.get('svc-context-cache-status') };
}

/**
 * @param {Response} response
 * @returns {AsyncGenerator<Json>}
 */
async function* events(response) {
  if (response.body === null) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (let read = await reader.read(); !read.done; read = await reader.read()) {
    const parts = (rest + read.value).split('\n\n');
    rest = parts.pop() ?? '';
    for (const part of parts) {
      const data = /^data: (.*)$/m.exec(part)?.[1];
      if (data !== undefined && data !== '[DONE]') yield JSON.parse(data);
    }
  }
}
