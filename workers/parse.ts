/**
 * Owns the run of a parsing task in a pool thread.
 * It must never throw across the thread: an error is a value, since a clone loses class and fields.
 */
import { toErrorValue } from '../src/errors.js';
import type { ParseResult, ParseTask } from '../src/parsing/tasks.js';
import { work } from '../src/parsing/work.js';
import { collectGarbage } from '../src/pool/garbage.js';
import { freeMemory, memoryIn } from '../src/pool/memory.js';
import { moved } from '../src/pool/pool.js';
import { step } from '../src/pool/thread-watch.js';

export default function parse(task: ParseTask): ParseResult {
  const asked = memoryIn(task);
  let bytes = 0;
  for (const { byteLength } of asked) bytes += byteLength;
  const result = step(() => resultOf(task));
  const answered = memoryIn(result);
  for (const memory of asked) if (!answered.has(memory)) freeMemory(memory);
  collectGarbage(bytes);
  return moved(result, [...answered]);
}

function resultOf(task: ParseTask): ParseResult {
  try {
    const answer = work(task);
    return { type: 'done', answer, talk: 'talk' in task.ask ? task.ask.talk : null };
  } catch (cause) {
    return { type: 'error', error: toErrorValue(cause) };
  }
}
