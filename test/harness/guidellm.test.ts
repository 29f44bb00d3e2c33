/**
 * GuideLLM asks for the health and the model by itself, and takes its counts from the chunk of the usage.
 */
import { join } from 'node:path';
import { read, testHarness } from './tool.js';

const REQUESTS = 12;
const TOKENS = 16;

await testHarness({
  venv: 'guidellm-0.8.1',
  packages: ['guidellm==0.8.1'],
  program: 'guidellm',
  real: true,
  args: ({ service: { url, key }, folder, tokenizer }) => [
    'run',
    ...['--backend', `kind=openai_http,target=${url},api_key=${key}`],
    ...['--profile', 'kind=concurrent,streams=2'],
    ...['--constraint', `kind=max_requests,count=${REQUESTS}`],
    ...['--data', `kind=synthetic_text,prompt_tokens=64,output_tokens=${TOKENS}`],
    ...['--tokenizer', `kind=huggingface_auto,model=${tokenizer.folder}`],
    ...['--output', `kind=json,path=${join(folder, 'guidellm.json')}`],
    '--disable-console-interactive',
  ],
  check(t, folder, engine) {
    const metric = (...way: string[]) =>
      read(join(folder, 'guidellm.json'), 'benchmarks', 0, 'metrics', ...way);
    t.match(metric('request_totals'), { successful: REQUESTS, errored: 0 });
    const tokens = Number(metric('output_token_count', 'successful', 'mean'));
    // A real model may end its answer earlier: nothing makes it go on.
    t.ok(
      engine === 'echo' ? tokens === TOKENS : tokens > 0 && tokens <= TOKENS,
      `${tokens} tokens`,
    );
    t.ok(Number(metric('time_to_first_token_ms', 'successful', 'mean')) > 0);
  },
});
