/**
 * Owns the header that tells a client where the time of its chat went.
 * It must never name a span that is not over.
 */
import type { ChatTimes } from '../telemetry/report.js';
import type { Headers } from './exchange.js';

export function serverTiming(times: ChatTimes): Headers {
  const { queueUs, tokenizeUs, cacheUs, prefillUs, generateUs } = times;
  let text = `queue;dur=${ms(queueUs)}, tokenize;dur=${ms(tokenizeUs)}, cache;dur=${ms(cacheUs)}`;
  if (prefillUs !== null) text += `, prefill;dur=${ms(prefillUs)}`;
  if (generateUs !== null) text += `, generate;dur=${ms(generateUs)}`;
  return { 'server-timing': text };
}

/** Milliseconds with one decimal, made of integers: formatting a fraction costs ten times as much. */
function ms(us: number): string {
  const tenths = Math.round(us / 100);
  return `${Math.floor(tenths / 10)}.${tenths % 10}`;
}
