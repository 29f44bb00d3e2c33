/**
 * Owns one run of schemathesis against a service, and what its report says.
 * It must never decide which failure counts: hooks.py and schemathesis.toml beside it do.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';

export interface ApiRound {
  readonly python: string;
  /** Holds hooks.py, schemathesis.toml and users.yaml; gets the report. */
  readonly folder: string;
  /** Of the service, without `/v1`. */
  readonly url: string;
  readonly seed: number;
  readonly phases: readonly string[];
  /** Examples for each operation in the phase of random requests, and as many sequences of requests. */
  readonly perOperation: number;
}

export interface ApiResult {
  readonly count: number;
  /** A line each: what failed, and where. */
  readonly failures: readonly string[];
  /** What to read when something failed. */
  readonly output: string;
}

interface Report {
  readonly test_cases: { readonly generated: number };
  readonly failures: readonly {
    readonly title: string;
    readonly operations: readonly string[];
  }[];
  readonly errors: readonly unknown[];
}

const ROUND_MS_MAX = 8 * 60_000;
const OUTPUT_LENGTH_MAX = 4 * 1024 * 1024;
const LINE_LENGTH_MAX = 400;

export async function runSchemathesis(round: ApiRound): Promise<ApiResult> {
  const report = join(round.folder, 'report.json');
  rmSync(report, { force: true });
  const child = spawn(round.python, ['-m', 'schemathesis.cli', ...flags(round, report)], {
    cwd: round.folder,
    env: {
      PATH: process.env.PATH,
      HOME: process.env.HOME,
      PYTHONPATH: '.',
      SCHEMATHESIS_HOOKS: 'hooks',
    },
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: ROUND_MS_MAX,
    killSignal: 'SIGKILL',
  });
  let output = '';
  const keep = (chunk: Buffer) => {
    output = (output + chunk.toString()).slice(-OUTPUT_LENGTH_MAX);
  };
  child.stdout.on('data', keep);
  child.stderr.on('data', keep);
  const [code] = (await once(child, 'close')) as [number | null];
  // One that was ended may have left the half of a report.
  if (code === null || !existsSync(report)) {
    const why = code === null ? `ended after ${ROUND_MS_MAX / 60_000} minutes` : `code ${code}`;
    return { count: 0, failures: [`no report, ${why}`], output };
  }
  return { ...read(report, code), output: readable(output) };
}

/** Without the requests, which are longer than all the rest; the seed brings them back. */
function readable(output: string): string {
  const lines = output.split('\n').filter((line) => !/^\s*(curl|⚠️|$)/.test(line));
  return lines.map((line) => line.slice(0, LINE_LENGTH_MAX)).join('\n');
}

function flags({ url, seed, phases, perOperation }: ApiRound, report: string): string[] {
  return [
    '--no-color',
    ...['run', `${url}openapi.json`, '--checks', 'all', '--continue-on-failure'],
    // Asked by `what_was_created_is_there` for all operations but the one whose path misleads it. `all` overrules the settings.
    ...['--exclude-checks', 'ensure_resource_availability'],
    // The shortest form of a failure takes many more requests to find: it is there for people.
    '--no-shrink',
    ...['--seed', `${seed}`, '--phases', phases.join(), '--max-examples', `${perOperation}`],
    // A loaded machine is slow; the checks say nothing about time.
    ...['--suppress-health-check', 'all', '--request-timeout', '300', '--max-response-time', '300'],
    ...['--report', 'json', '--report-json-path', report],
  ];
}

function read(path: string, code: number): Omit<ApiResult, 'output'> {
  const { test_cases, failures, errors } = JSON.parse(readFileSync(path, 'utf8')) as Report;
  const lines = failures.map(({ title, operations }) => `${title}: ${operations.join(', ')}`);
  lines.push(...errors.map((error) => JSON.stringify(error).slice(0, 500)));
  if (code !== 0 && lines.length === 0) lines.push(`it ended with code ${code}`);
  return { count: test_cases.generated, failures: lines };
}
