/**
 * Owns the question how many tokens a second come beside llama-server: eight and sixteen short streams.
 * It must never let a prompt be reused: all sides evaluate every prompt in full.
 */
import { streamsQuestion } from './support/stream-loads.js';

export const question = streamsQuestion(
  'llama-server-short-streams',
  'Tokens a second beside llama-server, short streams',
  [
    { label: '8 short streams', streams: 8, tokens: 32, goal: 1.1 },
    { label: '16 short streams', streams: 16, tokens: 32, goal: 1.1 },
  ],
);
