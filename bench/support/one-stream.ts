/**
 * Owns the measuring of one stream that quotes its prompt, writes code, or tells a story: its tokens a second.
 * It must never count the evaluation of a prompt, nor compare answers of two lengths.
 */
import { MODEL } from './chat.js';
import { checkOf } from './check.js';
import { firstContent } from './first-content.js';
import { atRest } from './processes.js';
import type { Sample, Scale } from './question.js';
import type { Server } from './servers.js';

export const ANSWER_TOKENS = 160;
/** Characters of a task. */
const TINY_LENGTH = 80;
const PASSAGE =
  'The ferry leaves the old harbour at seven, crosses the sound in forty minutes, and waits for the bus from the north. ' +
  'Those who miss it take the small boat of the fishermen, which carries nine people and no bicycles. The ticket is sold on ' +
  'board, and children below the age of six travel free. In winter the last ferry leaves at four, since the sound is dark by five.';
const CODE = `function totalOf(orders) {
  let total = 0;
  for (const order of orders) {
    if (order.cancelled) continue;
    total += order.price * order.count;
  }
  return total;
}`;

const TASKS = {
  quoting: `Repeat the following text word for word, three times.\n\n${PASSAGE}`,
  code: `Write this function again with comments, and then a function countOf that counts the orders:\n\n${CODE}`,
  prose: 'Tell me the whole story of a town by the sea, from the first house to this day.',
} as const;

export type Task = keyof typeof TASKS;
export const tasks = Object.keys(TASKS) as Task[];

export async function stream({ port, tree }: Server, task: Task, { tiny }: Scale): Promise<Sample> {
  const content = tiny ? TASKS[task].slice(0, TINY_LENGTH) : TASKS[task];
  const messages = [{ role: 'user', content }];
  const length = { max_tokens: tiny ? 6 : ANSWER_TOKENS, ignore_eos: true };
  const body = { model: MODEL, messages, temperature: 0, ...length };
  const { ms, endMs, text, answerTokens, promptTokens } = await firstContent({ port, body });
  // What a service does with an answer once it has ended, such as keeping its tokens, must not be the next one's to bear.
  if (!tiny) await atRest(tree);
  return {
    value: (answerTokens - 1) / ((endMs - ms) / 1_000),
    errors: 0,
    check: `${promptTokens} tokens, answer ${checkOf(text)}`,
    beside: { 'tokens of the answer': answerTokens },
  };
}
