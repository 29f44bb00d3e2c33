/**
 * The older completions route on the real model: likelihoods of prompts, and what is reused of them.
 */
import t, { type Test } from 'tap';
import { complete, type Fields, model } from '../support/chat-client.js';
import { type Completion, completed } from '../support/completions-client.js';
import { openService, type TestService } from '../support/service.js';
import { shallowEnv } from '../support/shallow-weights.js';
import { skipWithoutWeights } from '../support/weights.js';

t.setTimeout(300_000);

const facts = [
  'Question: Is the sea wet?\nAnswer: yes\n\n',
  'Question: Is stone soft?\nAnswer: no\n\n',
  'Question: Do cats bark?\nAnswer: no\n\n',
  'Question: Is snow cold?\nAnswer: yes\n\n',
];
const shots = facts.join('').repeat(3);
const asked = [
  `${shots}Question: Is fire hot?\nAnswer: yes`,
  `${shots}Question: Is fire hot?\nAnswer: no`,
  `${shots}Question: Can fish swim?\nAnswer: yes`,
];
const score = { echo: true, logprobs: 5, max_tokens: 0 };

type Lists = NonNullable<Completion['choices'][number]['logprobs']>;

function listsOf({ choices }: Completion, choice = 0): Lists {
  const lists = choices[choice]?.logprobs;
  if (lists === null || lists === undefined) throw new Error('no log-probabilities');
  return lists;
}

const env = { ...shallowEnv(), PREFACE_THREADS: '1,1', PREFACE_SLOTS: '2' };

t.test('on the real model', { skip: skipWithoutWeights }, async (t) => {
  const service = await openService(t, env);
  const of = (fields: Fields) => completed(service, fields);

  t.test(
    'each token of a prompt has the chance that it has as the first of an answer',
    async (t) => {
      const prompt = `${facts.join('')}Question: Is the sun a star that gives light to the earth?`;
      const { tokens, text_offset, token_logprobs, top_logprobs } = listsOf(
        await of({ prompt, ...score }),
      );
      t.equal(tokens.join(''), prompt);
      // Before a space a beginning of the text has the beginning of its tokens.
      const places = [...tokens.keys()].filter((at) => at > 5 && tokens[at]?.startsWith(' '));
      for (const at of places) {
        const beginning = prompt.slice(0, text_offset[at]);
        const next = await of({
          prompt: beginning,
          max_tokens: 1,
          logprobs: 5,
          cache_salt: `${at}`,
        });
        const [alternatives] = listsOf(next).top_logprobs;
        const { [tokens[at] ?? '']: own, ...others } = top_logprobs[at] ?? {};
        t.equal(own, token_logprobs[at]);
        for (const [token, logprob] of Object.entries(alternatives ?? {}))
          if (token in others) t.equal(others[token], logprob, `${at}: ${token}`);
      }
      t.ok(places.length > 20, `${places.length} places`);
    },
  );

  t.test('a raw prompt with the template written out is the chat', async (t) => {
    const messages = [{ role: 'user', content: 'Say hello.' }];
    const chat = await complete(service, { model, messages, max_tokens: 8, logprobs: true });
    const template = '<|im_start|>user\nSay hello.<|im_end|>\n<|im_start|>assistant\n';
    const system =
      '<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n';
    const raw = await of({ prompt: system + template, max_tokens: 8, logprobs: 0 });
    t.equal(raw.usage.prompt_tokens, chat.usage.prompt_tokens);
    t.equal(raw.choices[0]?.text, chat.choices[0]?.message.content);
    t.same(
      listsOf(raw).token_logprobs,
      chat.choices[0]?.logprobs?.content.map(({ logprob }) => logprob),
      'to the bit',
    );
  });

  t.test('a shared beginning is evaluated once, within a request and after it', async (t) => {
    const alone = await freshly(t, async (other) => {
      const answers: Completion[] = [];
      for (const [at, prompt] of asked.entries())
        answers.push(await completed(other, { prompt, ...score, cache_salt: `${at}` }));
      return answers;
    });
    for (const { usage } of alone) t.notOk(usage.cached_tokens, 'another salt reuses nothing');
    const together = await of({ prompt: asked, ...score });
    const later = await of({ prompt: `${shots}Question: Do cows fly?\nAnswer: no`, ...score });
    const tokens = alone.map(({ usage }) => usage.prompt_tokens);
    t.equal(
      together.usage.prompt_tokens,
      tokens.reduce((sum, each) => sum + each),
    );
    t.ok(
      (together.usage.cached_tokens ?? 0) > 1.7 * (tokens[0] ?? 0),
      `${together.usage.cached_tokens}`,
    );
    t.ok((later.usage.cached_tokens ?? 0) > 0.85 * later.usage.prompt_tokens);
    for (const at of asked.keys()) {
      const cold = alone[at];
      if (cold) t.same(listsOf(together, at), listsOf(cold), 'the same to the bit');
    }
  });
});

async function freshly<Value>(t: Test, run: (service: TestService) => Promise<Value>) {
  const other = await openService(t, env);
  const value = await run(other);
  await other.close();
  return value;
}
