/**
 * AIPerf counts by itself and by the usage, and reads the service's own figures while it runs.
 */
import { join } from 'node:path';
import { read, testHarness } from './tool.js';

const REQUESTS = 12;
const TOKENS = 16;

await testHarness({
  venv: 'aiperf-0.13.0',
  packages: ['aiperf==0.13.0'],
  program: 'aiperf',
  args: ({ service: { url, key }, folder, tokenizer }) => [
    ...['profile', '--model', 'svc-v1-8k', '--endpoint-type', 'chat', '--streaming'],
    ...['--url', new URL(url).origin, '--api-key', key],
    ...['--tokenizer', tokenizer.name, '--isl', '64', '--osl', `${TOKENS}`],
    ...['--request-count', `${REQUESTS}`, '--concurrency', '2', '--random-seed', '7'],
    ...['--extra-inputs', 'ignore_eos:true', '--use-server-token-count'],
    ...['--workers-max', '1', '--record-processors', '1', '--ui', 'none'],
    ...['--no-gpu-telemetry', '--artifact-dir', join(folder, 'aiperf')],
  ],
  check(t, folder) {
    const metric = (name: string) =>
      read(join(folder, 'aiperf', 'profile_export_aiperf.json'), name, 'avg');
    t.equal(metric('request_count'), REQUESTS);
    t.notOk(metric('error_request_count'), 'no errors');
    t.equal(metric('output_sequence_length'), TOKENS);
    t.ok(Number(metric('time_to_first_token')) > 0);
  },
});
