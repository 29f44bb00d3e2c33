/**
 * Compaction: what stays, what becomes a summary, and how a conversation goes on from it.
 */
import t from 'tap';
import { model } from '../support/chat-client.js';
import { type Fields, type Item, read, responseOf, textOf } from '../support/responses-client.js';
import { openService } from '../support/service.js';

t.setTimeout(120_000);

const service = await openService(t);

interface Compaction {
  readonly object: string;
  readonly output: readonly (Item & { readonly encrypted_content?: string })[];
  readonly usage: { readonly input_tokens: number; readonly output_tokens: number };
}

const call = (fields: Fields) => service.call('POST', '/responses/compact', { model, ...fields });
const compacted = async (fields: Fields) => await read<Compaction>(await call(fields));

const said = [
  { role: 'developer', content: 'Be brief.' },
  { role: 'user', content: 'one' },
  { role: 'assistant', content: 'two' },
  { type: 'function_call', call_id: 'c1', name: 'f', arguments: '{}' },
  { type: 'function_call_output', call_id: 'c1', output: 'three' },
];

t.test('what others said stays, what the model said and did becomes a summary', async (t) => {
  const { object, output, usage } = await compacted({ input: said });
  t.equal(object, 'response.compaction');
  t.match(output, [
    { type: 'message', role: 'developer', content: [{ text: 'Be brief.' }] },
    { type: 'message', role: 'user', content: [{ text: 'one' }] },
    { type: 'compaction', id: /^cmp_/, encrypted_content: /^preface-summary-1:/ },
  ]);
  t.equal(output.length, 3);
  t.ok(usage.output_tokens > 0, 'the model wrote it');
  const input = [...output, { role: 'user', content: 'four' }];
  const next = await responseOf(service, { input });
  t.equal(textOf(next), 'four');
  const summary = Buffer.from(
    (output.at(-1)?.encrypted_content ?? '').replace('preface-summary-1:', ''),
    'base64url',
  ).toString();
  const told = `Summary of the conversation so far:\n${summary}`;
  const plain = [said[0], said[1], { role: 'assistant', content: told }, input.at(-1)];
  const same = await responseOf(service, { input: plain });
  t.equal(next.usage.input_tokens, same.usage.input_tokens, 'the model sees the summary');
});

t.test('a kept response is summed up with all before it', async (t) => {
  const first = await responseOf(service, { input: 'one' });
  const second = await responseOf(service, { input: 'two', previous_response_id: first.id });
  const { output } = await compacted({ previous_response_id: second.id });
  t.match(
    output.map(({ type, content }) => [type, content?.[0]?.text]),
    [
      ['message', 'one'],
      ['message', 'two'],
      ['compaction', undefined],
    ],
  );
  const again = await compacted({ input: output });
  t.equal(again.output.length, 3, 'one summary takes the place of the other');
});

t.test('a longer conversation than the window is summed up too', async (t) => {
  const long = 'word '.repeat(9_000);
  const input = [{ role: 'assistant', content: long }, ...said];
  t.match((await compacted({ input })).output.at(-1), { type: 'compaction' });
});

t.test('a refusal names the field', async (t) => {
  const foreign = { type: 'compaction', encrypted_content: 'gAAAA' };
  const cases: readonly [fields: Fields, status: number, param: string][] = [
    [{ input: [] }, 400, 'input'],
    [{ model: null, input: 'x' }, 400, 'model'],
    [{ previous_response_id: 'resp_none' }, 404, 'previous_response_id'],
    [{ input: [foreign] }, 400, 'input[0].encrypted_content'],
    [{ input: [{ role: 'nobody', content: 'x' }] }, 400, 'input[0].role'],
  ];
  for (const [fields, status, param] of cases) {
    const response = await call(fields);
    t.equal(response.status, status);
    t.match(await response.json(), { error: { param } });
  }
});
