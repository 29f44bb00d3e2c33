/**
 * The evaluation harness compares the likelihoods of answers to questions behind the same examples, on the real model.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { completed } from '../support/completions-client.js';
import { writeSmallModelTokenizer } from './gguf-tokenizer.js';
import { read, testHarness } from './tool.js';

const QUESTIONS = 12;
const facts = ['Snow is cold', 'Fire is hot', 'Stone is hard', 'Wool is soft', 'Honey is sweet'];
const examples = `${facts.map((fact) => `Fact: ${fact}.`).join('\n')}\n`.repeat(4);
const things = ['sea', 'sun', 'night', 'grass', 'blood', 'milk', 'coal', 'gold', 'rose', 'sky'];

interface Sample {
  readonly doc: { readonly question: string; readonly choices: readonly string[] };
  /** Log-probability of each choice, and whether it is the greedy one. */
  readonly filtered_resps: readonly (readonly [string, string])[];
}

await testHarness({
  venv: 'lm-eval-0.4.13-transformers',
  packages: ['lm_eval[api]==0.4.13', 'transformers==4.57.1'],
  program: 'lm_eval',
  only: 'llama',
  async args({ service: { url }, folder }) {
    const tokenizer = await writeSmallModelTokenizer(join(folder, 'tokenizer'));
    writeTask(folder);
    const how = `tokenizer=${tokenizer},num_concurrent=1,max_retries=1`;
    return [
      ...['run', '--model', 'local-completions', '--batch_size', '4'],
      ...['--model_args', `model=svc-v1-8k,base_url=${url}/completions,${how}`],
      ...['--tasks', 'likely', '--include_path', folder],
      ...['--output_path', join(folder, 'results'), '--log_samples'],
    ];
  },
  async check(t, folder, _engine, { url, key }) {
    const files = readdirSync(join(folder, 'results'), { recursive: true, encoding: 'utf8' });
    const path = (name: RegExp) =>
      join(folder, 'results', files.find((file) => name.test(file)) ?? '');
    t.type(read(path(/results_[^/]*\.json$/), 'results', 'likely', 'acc,none'), 'number');
    const lines = readFileSync(path(/samples_[^/]*\.jsonl$/), 'utf8')
      .trim()
      .split('\n');
    const samples = lines.map((line) => JSON.parse(line) as Sample);
    t.equal(samples.length, QUESTIONS);
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
    const call = (method: string, route: string, body?: unknown) =>
      fetch(url + route, { method, headers, body: JSON.stringify(body) });
    for (const [at, { doc, filtered_resps: told }] of samples.entries()) {
      for (const [choice, text] of doc.choices.entries()) {
        const [logprob, isGreedy] = told[choice] ?? [];
        // Evaluated anew, and asked for as text.
        const again = await completed(
          { call },
          {
            prompt: `${examples}${doc.question} ${text}`,
            echo: true,
            logprobs: 1,
            max_tokens: 0,
            cache_salt: `${at} ${choice}`,
          },
        );
        const lists = again.choices[0]?.logprobs;
        const start = `${examples}${doc.question}`.length;
        const from = lists?.text_offset.indexOf(start) ?? -1;
        const sum = lists?.token_logprobs
          .slice(from)
          .reduce((all, one) => (all ?? 0) + (one ?? 0), 0);
        t.ok(from > 0 && Math.abs(Number(logprob) - (sum ?? 0)) < 1e-9, `${logprob} is ${sum}`);
        t.match(isGreedy, /^(True|False)$/);
      }
    }
    const usage = await fetch(`${url}/users/me/usage`, { headers });
    t.comment(await usage.text());
  },
});

function writeTask(folder: string): void {
  const docs = Array.from({ length: QUESTIONS }, (_, at) => ({
    question: `Fact: The ${things[at % things.length]} ${at} is`,
    choices: ['blue', 'a kind of stone', 'red'],
    gold: at % 3,
  }));
  writeFileSync(
    join(folder, 'questions.jsonl'),
    `${docs.map((doc) => JSON.stringify(doc)).join('\n')}\n`,
  );
  const task = {
    task: 'likely',
    dataset_path: 'json',
    dataset_kwargs: { data_files: join(folder, 'questions.jsonl') },
    test_split: 'train',
    output_type: 'multiple_choice',
    doc_to_text: `${examples}{{question}}`,
    doc_to_choice: '{{choices}}',
    doc_to_target: '{{gold}}',
    metric_list: [{ metric: 'acc', aggregation: 'mean', higher_is_better: true }],
  };
  // JSON is YAML.
  writeFileSync(join(folder, 'likely.yaml'), JSON.stringify(task));
}
