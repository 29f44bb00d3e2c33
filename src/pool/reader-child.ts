/**
 * Owns the inside of a process that reads documents: a Piscina pool of one extraction worker behind the parent's pipe.
 * It must end with its parent, and never look into a document itself: this thread is the one that watches.
 */
import { MessageChannel, receiveMessageOnPort } from 'node:worker_threads';
import { toErrorValue } from '../errors.js';
import { limits } from '../limits/index.js';
import { parentPipe, startOf } from './child.js';
import type {
  ExtractProgress,
  ExtractTask,
  FromReader,
  ReaderResult,
  ReaderStart,
  ReaderTask,
  ToReader,
} from './messages.js';
import { Pool } from './pool.js';
import type { Transport } from './transport.js';

type ReaderPool = Pool<ReaderTask, ReaderResult>;
type Parent = Transport<FromReader, ToReader>;

async function main(start: ReaderStart): Promise<void> {
  const parent: Parent = parentPipe();
  const pool: ReaderPool = new Pool({
    worker: new URL('../../workers/extract.js', import.meta.url),
    threads: 1,
    tasksPerThread: 1,
    queueMax: 1,
    sleepsBetweenTasks: false,
    // The task that ran is rejected too, and says so; a thread that dies between tasks has no state to lose.
    onThreadError: () => {},
  });
  const result = await pool.run({ type: 'open', extractors: start.extractors }).catch(failed);
  if (result.type === 'failed') parent.send(end(result));
  else parent.send({ type: 'ready' });
  parent.receive((messages) => {
    for (const { task } of messages) void read(pool, start, parent, task);
  });
}

async function read(
  pool: ReaderPool,
  start: ReaderStart,
  parent: Parent,
  task: ExtractTask,
): Promise<void> {
  const { port1, port2 } = new MessageChannel();
  const tell = (progress: ExtractProgress) => parent.send({ type: 'progress', progress });
  port1.on('message', tell);
  const watch = setInterval(() => {
    if (process.memoryUsage.rss() > start.memoryBytesMax) parent.send({ type: 'memory' });
  }, limits.extractionMemoryPollMs);
  const result = await pool.run({ type: 'read', task, port: port2 }, [port2]).catch(threadDied);
  clearInterval(watch);
  // The result may have overtaken the last pages.
  for (let left = receiveMessageOnPort(port1); left; left = receiveMessageOnPort(port1)) {
    tell(left.message as ExtractProgress);
  }
  port1.close();
  parent.send(result === null ? { type: 'memory' } : end(result));
}

function end(result: ReaderResult): FromReader {
  return { type: 'end', result, memoryBytes: process.memoryUsage.rss() };
}

function failed(cause: unknown): ReaderResult {
  return { type: 'failed', error: toErrorValue(cause) };
}

/** @returns null where it died of its heap. */
function threadDied(cause: unknown): ReaderResult | null {
  const { code, message } = cause instanceof Error ? (cause as NodeJS.ErrnoException) : {};
  if (code === 'ERR_WORKER_OUT_OF_MEMORY') return null;
  const reason = 'it is damaged: the reader failed on it';
  const result = { type: 'refused', reason, fileType: null } as const;
  return { type: 'read', result, fault: message ?? String(cause) };
}

void main(startOf<ReaderStart>());
