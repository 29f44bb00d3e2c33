/** Owns the proof that thoughts are told apart from the answer, wherever the pieces are cut. */
import t from 'tap';
import { ChoiceAnswer } from '../../src/rules/answer.js';
import { type ReasoningMarks, ReasoningReader, reasoningMarks } from '../../src/rules/reasoning.js';

const marks: ReasoningMarks = { open: '<think>', close: '</think>' };

function split(pieces: readonly string[], opened: boolean) {
  const reader = new ReasoningReader(marks, opened);
  const steps = [...pieces.map((piece) => reader.push(piece)), reader.end()];
  return {
    reasoning: steps.map((step) => step.reasoning).join(''),
    rest: steps.map((step) => step.rest).join(''),
  };
}

t.test('thoughts come first, without their marks and the space around them', async (t) => {
  const rows: readonly (readonly [string, boolean, string, string])[] = [
    ['<think>\nA < b.\n</think>\n\nYes. </think>', false, 'A < b.', 'Yes. </think>'],
    ['\nA\n\nB </thin </think> Yes', true, 'A\n\nB </thin', 'Yes'],
    ['Yes. <think>no</think>', false, '', 'Yes. <think>no</think>'],
    [' Yes', false, '', ' Yes'],
    ['<think>cut </thi', false, 'cut </thi', ''],
    ['<think>\n\n</think>\n\nYes', false, '', 'Yes'],
    ['<thi', false, '', '<thi'],
    ['</think>\n', true, '', ''],
  ];
  for (const [text, opened, reasoning, rest] of rows) {
    for (let cut = 0; cut <= text.length; cut++) {
      const found = split([text.slice(0, cut), text.slice(cut)], opened);
      t.same(found, { reasoning, rest }, `${JSON.stringify(text)} cut at ${cut}`);
    }
    t.same(split([...text], opened), { reasoning, rest }, `${JSON.stringify(text)} by letters`);
  }
});

t.test('thoughts are told as they come', async (t) => {
  const reader = new ReasoningReader(marks, true);
  t.same(reader.push('one tw'), { reasoning: 'one tw', rest: '' });
  t.same(reader.push('o <'), { reasoning: 'o', rest: '' });
  t.same(reader.push(' 3'), { reasoning: ' < 3', rest: '' });
});

t.test('stop strings and calls count in the answer alone', async (t) => {
  const decoder = {
    push: (ids: readonly number[]) => String.fromCharCode(...ids),
    end: () => '',
  };
  const reasoning = { marks, opened: false };
  const answer = new ChoiceAnswer(decoder, { stop: ['STOP'], toolMode: 'auto', reasoning });
  const text =
    '<think>STOP <tool_call>no</think>Well <tool_call>{"name":"f","arguments":{}}</tool_call>';
  const deltas = [
    ...answer.push(
      [...text].map((letter) => letter.charCodeAt(0)),
      null,
    ),
    ...answer.end('stop'),
  ];
  t.same(deltas, [
    { type: 'reasoning', text: 'STOP <tool_call>no' },
    { type: 'content', text: 'Well ', logprobs: null },
    { type: 'call', index: 0, name: 'f' },
    { type: 'arguments', index: 0, text: '{}' },
  ]);
  t.equal(answer.finish, 'tool_calls');
});

t.test('a template says how its model thinks', async (t) => {
  t.same(reasoningMarks('{{ content.split("</think>") }}<think>'), marks);
  t.same(reasoningMarks('[THINK]{{ x }}[/THINK]'), { open: '[THINK]', close: '[/THINK]' });
  t.equal(reasoningMarks('<|im_start|>assistant'), null);
});
