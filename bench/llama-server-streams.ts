/**
 * Owns the question how many tokens a second come beside llama-server: one stream, and four long ones.
 * It must never let a prompt be reused: all sides evaluate every prompt in full.
 */
import { streamsQuestion } from './support/stream-loads.js';

export const question = streamsQuestion(
  'llama-server-streams',
  'Tokens a second beside llama-server, long streams',
  [
    { label: '1 stream', streams: 1, tokens: 200, goal: 1.3 },
    { label: '4 long streams', streams: 4, tokens: 200, goal: 1.1 },
  ],
);
