/**
 * Owns the chats that the benches send.
 * It must never send a text twice that the service would remember, unless a bench measures that.
 */
import { requestText, SERIAL } from './load.js';

const PATH = '/v1/chat/completions';
export const MODEL = 'svc-v1-8k';

/** A constant system message and a new question each time, as a real chat client sends. */
export function chatRequest(question: string): { request: string; serialAt: number } {
  const request = requestText('POST', PATH, {
    model: MODEL,
    messages: [
      { role: 'system', content: 'You are a helpful assistant. Answer in one short sentence.' },
      { role: 'user', content: question },
    ],
    temperature: 0.3,
  });
  return { request, serialAt: request.indexOf(SERIAL) };
}

export function streamRequest(model: string, content: string, maxTokens: number): string {
  return requestText('POST', PATH, {
    model,
    messages: [{ role: 'user', content }],
    stream: true,
    max_tokens: maxTokens,
  });
}
