/**
 * Owns the inside of a host process: a Piscina pool whose inference worker speaks to the parent by itself.
 * It must end with its parent and with its worker: the parent starts a fresh one.
 */
import type { HostStart, InferTask } from './messages.js';
import { Pool } from './pool.js';

/** The pipe the parent made beside the three standard ones. The worker reads it: a relay here would cost every piece. */
const PIPE_FD = 3;

async function main({ engine }: HostStart): Promise<void> {
  // Standard input says nothing more; that it ends says that the parent has. A worker in a native call would hold up an
  // ordinary exit.
  process.stdin.resume().once('close', () => process.kill(process.pid, 'SIGKILL'));
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
  await pool.run({ engine, asker: PIPE_FD }).catch(fail);
  process.exit(1);
}

function fail(cause: unknown): never {
  process.stderr.write(`inference thread: ${cause instanceof Error ? cause.message : cause}\n`);
  process.exit(1);
}

/** The first line of standard input. Arguments of a process are for everybody to read, and the start may hold keys. */
async function readStart(): Promise<HostStart> {
  let text = '';
  for await (const chunk of process.stdin
    .setEncoding('utf8')
    .iterator({ destroyOnReturn: false })) {
    text += chunk;
    if (text.endsWith('\n')) break;
  }
  return JSON.parse(text) as HostStart;
}

void readStart().then(main, fail);
