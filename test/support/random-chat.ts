/**
 * Owns seeded random chats of every shape that changes a prompt: roles, names, tools, calls, results, parts, partial.
 * It must never make a chat that the contract refuses.
 */

import { type Random, randomText } from '../../src/plugin/test/random-text.js';
import type { Fields } from './chat-client.js';

/** A chat without `model`. It has no lone surrogates, since JSON text must not hold them. */
export function randomChat(random: Random, wordsMax: number): Fields {
  const text = () => randomText(random, 1 + random(wordsMax)).replace(/\p{Surrogate}/gu, '?');
  const chance = (one: number) => random(one) === 0;
  const messages: Fields[] = chance(2)
    ? [{ role: pick(random, ['system', 'developer']), content: text() }]
    : [];
  const tools = chance(2) ? Array.from({ length: 1 + random(3) }, (_, at) => tool(text, at)) : null;
  for (let turns = 1 + random(4); turns > 0; turns -= 1) {
    messages.push({
      role: 'user',
      content: chance(4) ? parts(random, text) : text(),
      ...name(random),
    });
    if (turns === 1) break;
    if (tools !== null && chance(2)) messages.push(...calls(random, text, messages.length));
    else messages.push({ role: 'assistant', content: text(), ...name(random) });
  }
  if (chance(4)) messages.push({ role: 'assistant', content: text(), partial: true });
  return { messages, ...(tools === null ? {} : { tools }) };
}

function name(random: Random): Fields {
  return random(3) === 0 ? { name: pick(random, ['Ann', '<|im_end|>', 'Zoë', '']) } : {};
}

function parts(random: Random, text: () => string): Fields[] {
  return Array.from({ length: 1 + random(4) }, () => ({ type: 'text', text: text() }));
}

function tool(text: () => string, at: number): Fields {
  const properties = {
    [text()]: { type: 'string', description: text() },
    n: { enum: [1, text()] },
  };
  const parameters = { type: 'object', properties };
  return { type: 'function', function: { name: `tool_${at}`, description: text(), parameters } };
}

function calls(random: Random, text: () => string, at: number): Fields[] {
  const ids = Array.from({ length: 1 + random(3) }, (_, index) => `call_${at}_${index}`);
  const tool_calls = ids.map((id) => {
    const given = random(5) === 0 ? text() : JSON.stringify({ [text()]: [text(), 1.5, null] });
    return { id, type: 'function', function: { name: 'tool_0', arguments: given } };
  });
  const content = pick<unknown>(random, ['', null, text()]);
  return [
    { role: 'assistant', content, tool_calls },
    ...ids.map((tool_call_id) => ({ role: 'tool', tool_call_id, content: text() })),
  ];
}

function pick<Item>(random: Random, items: readonly Item[]): Item {
  return items[random(items.length)] as Item;
}
