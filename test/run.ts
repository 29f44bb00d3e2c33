/**
 * Owns the run of the whole suite: every built test file in a process of its own, and one closing line.
 * It must never decide what a result means: tap's parser does.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type FinalResults, Parser, type Result } from 'tap-parser';

/** The longest, `bench`, took 9.5 minutes on a slow machine that did nothing else. */
const FILE_MS_MAX = 15 * 60_000;
const root = fileURLToPath(new URL('..', import.meta.url));

interface Outcome {
  passed: number;
  readonly skipped: string[];
  readonly failures: string[];
  stderr: string;
}

/** Names on the command line keep the files whose path contains one of them. */
async function main(wanted: readonly string[]): Promise<void> {
  const files = testFiles().filter(
    (file) => wanted.length === 0 || wanted.some((part) => file.includes(part)),
  );
  await pullWeights();
  const results = await runAll(files, Math.max(1, Math.min(2, availableParallelism())));
  for (const { skipped } of results)
    for (const reason of skipped) console.log(`skipped: ${reason}`);
  for (const result of results) showFailures(result);
  const passed = results.reduce((sum, result) => sum + result.passed, 0);
  const failed = results.reduce((sum, { failures }) => sum + failures.length, 0);
  console.log(`${passed} passed, ${failed} failed`);
  process.exitCode = failed === 0 && passed > 0 ? 0 : 1;
}

/** Once a machine; where they cannot be had, the tests of the real model are skipped and say so. */
async function pullWeights(): Promise<void> {
  const cli = fileURLToPath(new URL('../src/cli.js', import.meta.url));
  const child = spawn(process.execPath, [cli, 'models', 'pull'], {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  await once(child, 'close');
}

function showFailures({ failures, stderr }: Outcome): void {
  for (const failure of failures) console.log(failure);
  if (failures.length > 0 && stderr !== '') console.log(`its standard error:\n${stderr}`);
}

async function runAll(files: readonly string[], jobs: number): Promise<Outcome[]> {
  const waiting = [...files];
  const results: Outcome[] = [];
  const work = async () => {
    for (let file = waiting.shift(); file !== undefined; file = waiting.shift()) {
      results.push(await runFile(file));
    }
  };
  await Promise.all(Array.from({ length: jobs }, work));
  return results;
}

async function runFile(file: string): Promise<Outcome> {
  const startMs = performance.now();
  const child = spawn(process.execPath, ['--enable-source-maps', file], {
    stdio: ['ignore', 'pipe', 'pipe'],
    // One bound, here: tap's own of 30 s would make a slow machine a failed test.
    env: { ...process.env, TAP_TIMEOUT: String(FILE_MS_MAX / 1000) },
  });
  const timer = setTimeout(() => child.kill('SIGKILL'), FILE_MS_MAX);
  const errors: Buffer[] = [];
  child.stderr.on('data', (chunk: Buffer) => errors.push(chunk));
  const [outcome] = await Promise.all([readTap(child.stdout), once(child, 'close')]);
  clearTimeout(timer);
  const name = relative(root, file);
  outcome.stderr = Buffer.concat(errors).toString();
  outcome.failures.push(...lostTests(outcome.stderr));
  if (outcome.failures.length === 0) outcome.failures.push(...exitFailure(child));
  const seconds = ((performance.now() - startMs) / 1000).toFixed(1);
  const verdict = outcome.failures.length === 0 ? 'ok    ' : 'FAILED';
  console.log(`${verdict} ${seconds.padStart(6)} s ${String(outcome.passed).padStart(6)}  ${name}`);
  // At once, and in short: who watches need not wait for the end, and a log that is cut tells the reason all the same.
  for (const failure of outcome.failures) console.log(`  ${failure.slice(0, 600)}`);
  return { ...outcome, failures: outcome.failures.map((failure) => `${name}: ${failure}`) };
}

async function readTap(output: NodeJS.ReadableStream): Promise<Outcome> {
  const parser = new Parser();
  const outcome: Outcome = { passed: 0, skipped: [], failures: [], stderr: '' };
  // The root tells of assertions at any depth, and not of a subtest's line that only repeats them.
  parser.on('pass', () => {
    outcome.passed += 1;
  });
  parser.on('skip', (result: Result) => {
    outcome.skipped.push(`${result.fullname}: ${String(result.skip)}`);
  });
  for (const kind of ['fail', 'todo'] as const) {
    parser.on(kind, (result: Result) => outcome.failures.push(describe(result)));
  }
  output.pipe(parser);
  const [results] = (await once(parser, 'complete')) as [FinalResults];
  if (!results.ok && outcome.failures.length === 0) outcome.failures.push('its TAP is not whole');
  return outcome;
}

function describe(result: Result): string {
  return `not ok: ${result.fullname}\n${JSON.stringify(result.diag, null, 2)}`;
}

/** tap ends a file that waits between two tests of its root and has a teardown there: what comes later is not run. */
function lostTests(stderr: string): string[] {
  return /subtest after parent/.test(stderr) ? ['its last tests began after its end'] : [];
}

/** A file that ends badly after its last assertion has failed too. */
function exitFailure(child: ChildProcess): string[] {
  const { exitCode, signalCode } = child;
  return exitCode === 0 ? [] : [`ended with ${signalCode ?? `code ${exitCode}`}`];
}

function testFiles(): string[] {
  const folder = fileURLToPath(new URL('.', import.meta.url));
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.test.js'))
    .sort()
    .map((file) => join(folder, file));
}

main(process.argv.slice(2)).catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
