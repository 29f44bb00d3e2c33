/**
 * Published templates and tools: where calls are read here, only a template whose calls are read keeps its own form.
 */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { ChatTemplate } from '../../src/rules/chat-template.js';
import { assertPrefixStable } from '../../src/rules/prefix-stability.js';
import type { PromptInput, PromptMessage } from '../../src/rules/prompt.js';

const folder = fileURLToPath(new URL('../../../test/documents/templates/', import.meta.url));

const say = (role: PromptMessage['role'], content: string): PromptMessage => ({
  role,
  content,
  name: null,
  toolCalls: [],
  toolCallId: null,
});

const call = { id: 'call_1', name: 'look', arguments: '{"at":"it"}' };
const input: PromptInput = {
  messages: [
    say('system', 'Be brief.'),
    say('user', 'Look.'),
    { ...say('assistant', ''), toolCalls: [call] },
    { ...say('tool', 'seen'), toolCallId: call.id },
  ],
  tools: [{ name: 'look', description: 'Looks.', parameters: { type: 'object', properties: {} } }],
  continueLast: false,
  generationPrompt: true,
};

const SPECIAL = /<[|｜][^|｜<>'"{}]+[|｜]>|\[gMASK\]|<sop>/g;

/** Template → how it writes the call itself, and whether that is read. */
const written = {
  qwen3: [/<tool_call>\n\{"name": "look", "arguments": \{"at": "it"\}\}\n<\/tool_call>/, true],
  'gpt-oss': [/assistant to=functions\.look<\|channel\|>commentary json<\|message\|>/, false],
  'glm-4.6': [/<tool_call>look\n<arg_key>at<\/arg_key>/, false],
} as const;

for (const [name, [own, isRead]] of Object.entries(written)) {
  t.test(name, async (t) => {
    const template = readFileSync(`${folder}${name}.jinja`, 'utf8');
    const names = [...new Set(template.match(SPECIAL))];
    const special = Object.fromEntries(names.map((each, at) => [each, at]));
    const source = { template, special, bosToken: '<s>', eosToken: '</s>', addBos: false };
    const textOf = (each: ChatTemplate) =>
      each
        .render(input)
        .map((part) => ('text' in part ? part.text : 'special' in part ? names[part.special] : ''))
        .join('');
    const behind = new ChatTemplate(source);
    t.ok(behind.hasTools, 'a server behind this one reads its own form');
    t.match(textOf(behind), own);

    const here = new ChatTemplate({ ...source, readsCalls: true });
    assertPrefixStable(here);
    t.equal(here.hasTools, isRead);
    const text = textOf(here);
    if (isRead) {
      t.equal(text, textOf(behind));
      return;
    }
    t.notMatch(text, own);
    t.match(text, /Be brief\..*<tools>\n\{"name":"look".*\n<tool_call>\n/s);
    t.match(text, '<tool_call>\n{"name":"look","arguments":{"at":"it"}}\n</tool_call>');
    t.match(text, '<tool_response>\nseen\n</tool_response>');
  });
}
