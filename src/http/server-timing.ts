/**
 * Owns the header that tells a client where the time of its chat went.
 * It must never name a span that is not over.
 */
import type { ChatTimes } from '../report.js';
import type { Headers } from './exchange.js';

export function serverTiming(times: ChatTimes): Headers {
  const { queueMs, tokenizeMs, cacheMs, prefillMs, generateMs } = times;
  let text = `queue;dur=${queueMs}, tokenize;dur=${tokenizeMs}, cache;dur=${cacheMs}`;
  if (prefillMs !== null) text += `, prefill;dur=${prefillMs}`;
  if (generateMs !== null) text += `, generate;dur=${generateMs}`;
  return { 'server-timing': text };
}
