/**
 * Owns a small conversation for tests of what reads one, and a parser whose threads are never asked.
 * It must never stand in for a large one: those need real threads.
 */
import { Parser } from '../../src/parsing/parser.js';
import { NearTalk } from '../../src/parsing/talk.js';

export const nearParser = new Parser({
  run: () => Promise.reject(new Error('nothing is large here')),
});

export const nothingSaid = new NearTalk(
  nearParser,
  'alice',
  { messages: [], tools: [], partial: false },
  null,
  0,
);
