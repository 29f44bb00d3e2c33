/**
 * Batches on the real model: a beginning that lines share is evaluated once, and who waits for an answer goes first.
 */
import t from 'tap';
import type { WireCompletion } from '../../src/protocol/completion.js';
import {
  call,
  created,
  line,
  lookAt,
  resultsIn,
  untilBatch,
  untilStatus,
} from '../support/batch-client.js';
import { type Fields, model } from '../support/chat-client.js';
import { openService } from '../support/service.js';
import { shallowEnv } from '../support/shallow-weights.js';
import { skipWithoutWeights } from '../support/weights.js';

t.setTimeout(400_000);

/** Without prefixes that are kept by themselves: they would help the single requests, too. */
const env = {
  ...shallowEnv(),
  PREFACE_THREADS: '1,1',
  PREFACE_SLOTS: '2',
  PREFACE_PROMOTE: 'false',
};
const topics = ['harbours', 'gardens', 'engines', 'rivers', 'clocks', 'bridges'];
const books = topics.map(
  (topic) => `Rules about ${topic}. ${`All ${topic} are kept clean and quiet. `.repeat(25)}`,
);
const questions = ['Who may enter?', 'When is it open?', 'What is not allowed?'];

/** As a program writes them that takes one question after the other. */
const bodies = questions.flatMap((question) =>
  books.map((book) => ({
    model,
    messages: [
      { role: 'system', content: book },
      { role: 'user', content: question },
    ],
    max_tokens: 4,
  })),
);
const lines = bodies.map((body, at) => line(`${at}`, body));

t.test('on the real model', { skip: skipWithoutWeights }, async (t) => {
  t.test('the same requests one by one, and as a batch', async (t) => {
    const apart = await openService(t, env);
    const beganMs = performance.now();
    const answers: WireCompletion[] = [];
    for (const body of bodies)
      answers.push(
        (await (await call(apart, 'POST', '/chat/completions', body)).json()) as WireCompletion,
      );
    const apartMs = performance.now() - beganMs;
    await apart.close();
    const together = await openService(t, env);
    const batchBeganMs = performance.now();
    const { id } = await created(together, lines);
    const batch = await untilStatus(together, id, 'completed');
    const batchMs = performance.now() - batchBeganMs;
    const results = await resultsIn(together, batch.output_file_id);
    t.same(
      results.map(({ response }) => contentOf(response?.body)),
      answers.map(contentOf),
    );
    const cached = answers.reduce((sum, { usage }) => sum + (usage.cached_tokens ?? 0), 0);
    const prompt = answers.reduce((sum, { usage }) => sum + usage.prompt_tokens, 0);
    const saved = batch.usage.input_tokens_details.cached_tokens;
    t.equal(batch.usage.input_tokens, prompt);
    t.comment(
      `of ${prompt} prompt tokens ${cached} were reused one by one, ${saved} in the batch; ` +
        `${Math.round(apartMs)} and ${Math.round(batchMs)} ms`,
    );
    t.ok(saved > 0.5 * prompt, `${saved} of ${prompt}`);
    t.ok(cached < 0.1 * prompt, `${cached} of ${prompt}`);
  });

  t.test('who waits for an answer goes first, and the batch goes on', async (t) => {
    const service = await openService(t, { ...env, PREFACE_SLOTS: '1' });
    const long = {
      model,
      messages: [{ role: 'user', content: 'Count.' }],
      max_tokens: 400,
      ignore_eos: true,
    };
    const { id } = await created(service, [line('long', long)]);
    await untilBatch(service, id, ({ status }) => status === 'in_progress');
    const asked = { model, messages: [{ role: 'user', content: 'Hi' }], max_tokens: 2 };
    for (let turn = 0; turn < 3; turn += 1) {
      const response = await call(service, 'POST', '/chat/completions', asked);
      t.equal(response.status, 200);
      await response.json();
      t.equal((await lookAt(service, id)).request_counts.completed, 0, 'the batch made room');
    }
    const batch = await untilStatus(service, id, 'completed');
    t.equal(batch.usage.output_tokens, 400);
  });
});

function contentOf(answer: WireCompletion | Fields | undefined): string | undefined {
  return (answer as WireCompletion | undefined)?.choices[0]?.message.content;
}
