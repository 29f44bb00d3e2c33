/**
 * Published templates of reasoning models: what they are told of thinking reaches their prompts, and what such a model
 * writes is told apart wherever its pieces are cut.
 */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { readTemplateArgs } from '../../src/protocol/template-args.js';
import { ChoiceAnswer } from '../../src/rules/answer.js';
import { chatPrompt } from '../../src/rules/chat-prompt.js';
import { ChatTemplate } from '../../src/rules/chat-template.js';
import { assertPrefixStable } from '../../src/rules/prefix-stability.js';
import { type ReasoningMarks, reasoningMarks } from '../../src/rules/reasoning.js';

const folder = fileURLToPath(new URL('../../../test/documents/templates/', import.meta.url));
const SPECIAL = /<[|｜][^|｜<>'"{}]+[|｜]>|<\/?think>|\[gMASK\]|<sop>/g;

interface Row {
  /** What the request says, and what the end of its prompt is then. */
  readonly told: Readonly<Record<string, unknown>>;
  readonly prompt: string | RegExp;
  /** Whole answers as such a model writes them behind that prompt: text, thoughts, answer. */
  readonly answers: readonly (readonly [string, string, string])[];
}

const kwargs = (chat_template_kwargs: Readonly<Record<string, unknown>>) => ({
  chat_template_kwargs,
});
const THOUGHT = 'A < b, so </ it.';

const rows: Readonly<Record<string, readonly Row[]>> = {
  qwen3: [
    {
      told: {},
      prompt: '<|im_start|>assistant\n',
      answers: [
        [`<think>\n${THOUGHT}\n</think>\n\nYes.`, THOUGHT, 'Yes.'],
        ['Yes.', '', 'Yes.'],
      ],
    },
    {
      told: { reasoning_effort: 'none' },
      prompt: '<|im_start|>assistant\n<think>\n\n</think>\n\n',
      answers: [['Yes.', '', 'Yes.']],
    },
    {
      told: kwargs({ enable_thinking: false }),
      prompt: '<think>\n\n</think>\n\n',
      answers: [['Yes.', '', 'Yes.']],
    },
  ],
  'deepseek-r1': [
    {
      told: {},
      prompt: '<｜Assistant｜><think>\n',
      answers: [
        [`${THOUGHT}\n</think>\n\nYes.`, THOUGHT, 'Yes.'],
        ['cut', 'cut', ''],
      ],
    },
  ],
  'deepseek-v3.1': [
    {
      told: kwargs({ thinking: true }),
      prompt: '<｜Assistant｜><think>',
      answers: [[`${THOUGHT}</think>Yes.`, THOUGHT, 'Yes.']],
    },
    { told: {}, prompt: '<think></think>', answers: [['Yes.', '', 'Yes.']] },
  ],
  'gpt-oss': [
    {
      told: { reasoning_effort: 'high' },
      prompt: /Reasoning: high.*<\|start\|>assistant$/s,
      answers: [
        [
          `<|channel|>analysis<|message|>${THOUGHT}<|end|><|start|>assistant<|channel|>final<|message|>Yes.`,
          THOUGHT,
          'Yes.',
        ],
        ['<|channel|>final<|message|>Yes.', '', 'Yes.'],
      ],
    },
    { told: { reasoning_effort: 'low' }, prompt: /Reasoning: low/, answers: [] },
    { told: {}, prompt: /Reasoning: medium/, answers: [] },
  ],
  'glm-4.6': [
    {
      told: {},
      prompt: '<|assistant|>',
      answers: [[`\n<think>${THOUGHT}</think>\nYes.`, THOUGHT, 'Yes.']],
    },
    {
      told: { reasoning_effort: 'none' },
      prompt: '/nothink<|assistant|>\n<think></think>',
      answers: [['\nYes.', '', '\nYes.']],
    },
  ],
  'granite-3.3': [
    {
      told: kwargs({ thinking: true }),
      prompt: /<think><\/think>.*<\|start_of_role\|>assistant<\|end_of_role\|>$/s,
      answers: [
        [
          `<think>${THOUGHT}</think><response>Yes.</response>`,
          THOUGHT,
          '<response>Yes.</response>',
        ],
      ],
    },
    {
      told: {},
      prompt: '<|start_of_role|>assistant<|end_of_role|>',
      answers: [['Yes.', '', 'Yes.']],
    },
  ],
};

const question = {
  role: 'user' as const,
  content: 'Is it?',
  name: null,
  toolCalls: [],
  toolCallId: null,
  partial: false,
};

function promptOf(template: ChatTemplate, told: Row['told']): string {
  const templateArgs = readTemplateArgs(told);
  const args = templateArgs === undefined ? {} : { templateArgs };
  const source = { messages: [question], tools: [], partial: false, ...args };
  const texts = Object.entries(template.source.special).map(([text, id]) => [id, text] as const);
  const special = new Map(texts);
  return template
    .render(chatPrompt(source, 'it is blind'))
    .map((each) =>
      'text' in each ? each.text : 'special' in each ? special.get(each.special) : '',
    )
    .join('');
}

/** Each letter is a token. */
const decoder = {
  push: (ids: readonly number[]) => String.fromCharCode(...ids),
  end: () => '',
};

function read(pieces: readonly string[], marks: ReasoningMarks, opened: boolean) {
  const answer = new ChoiceAnswer(decoder, {
    stop: [],
    toolMode: 'off',
    reasoning: { marks, opened },
  });
  const codes = (piece: string) => [...piece].map((letter) => letter.charCodeAt(0));
  const deltas = [
    ...pieces.flatMap((piece) => answer.push(codes(piece), null)),
    ...answer.end('stop'),
  ];
  const told = { reasoning: '', content: '' };
  for (const delta of deltas)
    if (delta.type === 'reasoning' || delta.type === 'content') told[delta.type] += delta.text;
  return told;
}

for (const [name, cases] of Object.entries(rows)) {
  t.test(name, async (t) => {
    const text = readFileSync(`${folder}${name}.jinja`, 'utf8');
    const special = Object.fromEntries(
      [...new Set(text.match(SPECIAL) ?? [])].map((each, at) => [each, at + 1]),
    );
    const bos = { bosToken: '<s>', eosToken: '</s>', addBos: false };
    const template = new ChatTemplate({ template: text, special, ...bos });
    assertPrefixStable(template);
    const marks = reasoningMarks(text);
    if (marks === null) throw new Error('no marks');
    for (const { told, prompt, answers } of cases) {
      const rendered = promptOf(template, told);
      if (typeof prompt === 'string') t.equal(rendered.slice(-prompt.length), prompt);
      else t.match(rendered, prompt);
      const opened = rendered.trimEnd().endsWith(marks.open);
      for (const [whole, reasoning, content] of answers) {
        const expected = { reasoning, content };
        for (let cut = 0; cut <= whole.length; cut++) {
          const pieces = [whole.slice(0, cut), whole.slice(cut)];
          t.same(read(pieces, marks, opened), expected, `${JSON.stringify(pieces)}`);
        }
        t.same(read([...whole], marks, opened), expected, 'letter by letter');
      }
    }
  });
}
