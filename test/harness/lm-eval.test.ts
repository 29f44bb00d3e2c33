/**
 * The evaluation harness sends a task's questions as chats with its stop strings, and compares the answers.
 */
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { read, testHarness } from './tool.js';

const QUESTIONS = 12;

await testHarness({
  venv: 'lm-eval-0.4.13',
  packages: ['lm_eval[api]==0.4.13'],
  program: 'lm_eval',
  args({ service: { url }, folder }) {
    writeTask(folder);
    const limits = 'num_concurrent=2,max_retries=1';
    return [
      ...['run', '--model', 'local-chat-completions'],
      ...['--model_args', `model=svc-v1-8k,base_url=${url}/chat/completions,${limits}`],
      ...['--tasks', 'said_back', '--include_path', folder, '--apply_chat_template'],
      ...['--output_path', join(folder, 'results'), '--log_samples'],
    ];
  },
  check(t, folder) {
    const files = readdirSync(join(folder, 'results'), { recursive: true, encoding: 'utf8' });
    const file = files.find((name) => /results_[^/]*\.json$/.test(name)) ?? '';
    const result = (name: string) =>
      read(join(folder, 'results', file), 'results', 'said_back', name);
    t.equal(result('exact_match,none'), 1);
  },
});

/** The stop strings are those of its task for school mathematics. */
function writeTask(folder: string): void {
  const questions = Array.from({ length: QUESTIONS }, (_, at) => `Say back word ${at}`);
  const lines = questions.map((text) => JSON.stringify({ question: text, answer: text }));
  writeFileSync(join(folder, 'questions.jsonl'), `${lines.join('\n')}\n`);
  const task = {
    task: 'said_back',
    dataset_path: 'json',
    dataset_kwargs: { data_files: join(folder, 'questions.jsonl') },
    test_split: 'train',
    output_type: 'generate_until',
    doc_to_text: '{{question}}',
    doc_to_target: '{{answer}}',
    generation_kwargs: {
      until: ['Question:', '</s>', '<|im_end|>'],
      do_sample: false,
      temperature: 0,
    },
    metric_list: [{ metric: 'exact_match', aggregation: 'mean', higher_is_better: true }],
  };
  // JSON is YAML.
  writeFileSync(join(folder, 'said_back.yaml'), JSON.stringify(task));
}
