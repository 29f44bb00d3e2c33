/**
 * Claude Code, unmodified, against the Messages API on the echo engine: it gets its answers, and what it marks is reused.
 */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';
import { temporaryFolder } from '../support/service.js';
import { startServiceProcess } from '../support/service-process.js';
import { until } from '../support/until.js';
import { npmTool } from './npm-tool.js';

const run = promisify(execFile);
const VERSION = '2.1.330';
const ANSWER_MS_MAX = 120_000;

t.setTimeout(600_000);

const tool = await npmTool('@anthropic-ai/claude-code', VERSION);
const packages = 'folder' in tool ? join(tool.folder, 'node_modules/@anthropic-ai') : '';
const program = join(packages, `claude-code-${process.platform}-${process.arch}/claude`);
const missing = 'missing' in tool ? tool.missing : `no program for this machine at ${program}`;

t.test('two runs of one question', { skip: existsSync(program) ? false : missing }, async (t) => {
  const service = await startServiceProcess(t, {});
  const model = 'svc-v1-128k';
  const folder = temporaryFolder(t);
  const env = {
    PATH: process.env.PATH,
    HOME: folder,
    ANTHROPIC_BASE_URL: service.url.replace(/\/v1$/, ''),
    ANTHROPIC_AUTH_TOKEN: service.key,
    ANTHROPIC_MODEL: model,
    ANTHROPIC_SMALL_FAST_MODEL: model,
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
    DISABLE_AUTOUPDATER: '1',
    DISABLE_TELEMETRY: '1',
  };
  const ask = async () => {
    const args = ['-p', 'Say hello', '--output-format', 'json'];
    const child = run(program, args, { cwd: folder, env, timeout: ANSWER_MS_MAX });
    child.child.stdin?.end();
    return JSON.parse((await child).stdout) as {
      is_error: boolean;
      result: string;
      usage: { cache_creation_input_tokens: number; cache_read_input_tokens: number };
    };
  };
  const first = await ask();
  t.notOk(first.is_error);
  t.not(first.result, '');
  t.ok(first.usage.cache_creation_input_tokens > 10_000, JSON.stringify(first.usage));
  const headers = { authorization: `Bearer ${service.key}` };
  const ready = async () => {
    const response = await fetch(`${service.url}/caching`, { headers });
    const { data } = (await response.json()) as { data: { status: string }[] };
    return data.length > 0 && data.every(({ status }) => status === 'ready');
  };
  await until(ready, ANSWER_MS_MAX, 'the prefixes are kept');
  const second = await ask();
  t.notOk(second.is_error);
  t.ok(second.usage.cache_read_input_tokens > 10_000, JSON.stringify(second.usage));
});
