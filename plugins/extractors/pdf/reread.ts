/**
 * Owns the second reading of PDF pages whose first one is in doubt: pdf2json, in a thread.
 * It must never be the only reader, or take longer than its bound; a failure means that it has no answer.
 */
import { MessageChannel, Worker } from 'node:worker_threads';

/** It parses all pages before its first result, so larger documents keep their first reading. */
const REREAD_BYTES_MAX = 32 * 1024 * 1024;
const REREAD_PAGES_MAX = 500;
/** Most documents take a tenth of a second. */
const REREAD_MS = 5_000;
const REREAD_MS_PER_PAGE = 40;

/** Loading the library takes longer than most documents: a thread that answered is asked again. */
let idle: Worker | null = null;

/** The texts of all pages in order, or null where pdf2json cannot read the document. */
export async function rereadPdf(bytes: Uint8Array, pages: number): Promise<string[] | null> {
  if (bytes.length > REREAD_BYTES_MAX || pages > REREAD_PAGES_MAX) return null;
  const thread = idle ?? start();
  idle = null;
  const answer = await answerOf(thread, bytes, REREAD_MS + pages * REREAD_MS_PER_PAGE);
  if (answer !== undefined && idle === null) idle = thread;
  else await thread.terminate();
  return answer ?? null;
}

/** A hostile document can make it loop for ever, so it must be possible to end it from outside. */
function start(): Worker {
  const entry = new URL('./reread-thread.js', import.meta.url);
  const thread = new Worker(entry, { stdout: true, stderr: true });
  thread.unref();
  thread.on('error', () => {});
  thread.once('exit', () => {
    if (idle === thread) idle = null;
  });
  return thread;
}

/** Undefined when it had no answer. */
function answerOf(
  thread: Worker,
  bytes: Uint8Array,
  msMax: number,
): Promise<string[] | null | undefined> {
  const { port1, port2 } = new MessageChannel();
  return new Promise((resolve) => {
    const end = (answer?: string[] | null) => {
      clearTimeout(timer);
      thread.off('exit', onExit);
      port1.close();
      resolve(answer);
    };
    const onExit = () => end();
    const timer = setTimeout(end, msMax);
    thread.once('exit', onExit);
    port1.once('message', (answer: string[] | null) => end(answer));
    thread.postMessage({ bytes, port: port2 }, [port2]);
  });
}
