/**
 * Owns the inside of a host process: a Piscina pool whose inference worker speaks to the parent by itself.
 * It must open nothing before the parent says so, and end with its parent and with its worker.
 */
import { createInterface } from 'node:readline';
import { startBeats } from './child.js';
import type { HostLine, HostOpen, InferTask } from './messages.js';
import { Pool } from './pool.js';

/** The pipe the parent made beside the three standard ones. The worker reads it: a relay here would cost every piece. */
const PIPE_FD = 3;

/** Of standard input: arguments of a process are for everybody to read, and the start may hold keys. */
type Lines = AsyncIterator<string>;

async function main(lines: Lines): Promise<void> {
  // A terminal's interrupt reaches the whole group; the parent decides when its streams have ended.
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => {});
  const pool = new Pool<InferTask, void>({
    worker: new URL('../../workers/infer.js', import.meta.url),
    threads: 1,
    tasksPerThread: 1,
    // Never used. With 0 Piscina keeps what it has refused.
    queueMax: 1,
    sleepsBetweenTasks: false,
    onThreadError: fail,
  });
  const { engine, beatMs, place } = await next<HostLine>(lines);
  startBeats(beatMs);
  const prepared = pool.run({ type: 'prepare', engine });
  const { warmFirst } = await next<HostOpen>(lines);
  // Nothing more is said; that there is an end says that the parent has met its own.
  void next(lines);
  await prepared;
  await pool.run({ type: 'serve', engine, asker: PIPE_FD, warmFirst, place });
  process.exit(1);
}

async function next<Line>(lines: Lines): Promise<Line> {
  const { value, done } = await lines.next();
  // A worker in a native call would hold up an ordinary exit.
  if (done) process.kill(process.pid, 'SIGKILL');
  return JSON.parse(value) as Line;
}

function fail(cause: unknown): never {
  process.stderr.write(`inference thread: ${cause instanceof Error ? cause.message : cause}\n`);
  process.exit(1);
}

main(createInterface({ input: process.stdin })[Symbol.asyncIterator]()).catch(fail);
