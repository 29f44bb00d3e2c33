/**
 * Owns the thread that turns schemas into grammars, beside the decode loop, and the time it may take for one.
 * It must never trust that a schema comes to an end: a thread that takes too long is ended.
 */
import { MessageChannel, Worker } from 'node:worker_threads';
import { limits } from 'preface/plugin';
import { SchemaError } from './schema/cost.js';
import type { SchemaGrammar } from './schema/grammar.js';
import { Turns } from './turns.js';

export interface CompileRequest {
  readonly schema: string | null;
  readonly leadingSpace: boolean;
}

/** A schema at fault is told by the message alone. */
export type CompileAnswer = SchemaGrammar | { readonly refusal: string };

const turns = new Turns();
/** A thread takes longer to start than most schemas: one that answered is asked again. */
let idle: Worker | null = null;

/** @throws Error with `code: 'unsupported_schema'`, or `overloaded` when too many wait. */
export function compileSchema(
  request: CompileRequest,
  owner: string,
  msMax: number = limits.grammarCompileMsMax,
): Promise<SchemaGrammar> {
  return turns.run(owner, () => compile(request, msMax));
}

async function compile(request: CompileRequest, msMax: number): Promise<SchemaGrammar> {
  const thread = idle ?? start();
  idle = null;
  const answer = await answerOf(thread, request, msMax);
  if (answer === null) {
    await thread.terminate();
    throw new SchemaError(`#: the schema takes longer than ${msMax} ms to become a grammar`);
  }
  idle = thread;
  if ('refusal' in answer) throw new SchemaError(answer.refusal);
  return answer;
}

function start(): Worker {
  // The bundle of this engine has the bundle of the thread beside it.
  const entry = new URL('./schema-thread.js', import.meta.url);
  const thread = new Worker(entry, { resourceLimits: { maxOldGenerationSizeMb: 256 } });
  thread.unref();
  thread.on('error', () => {});
  thread.once('exit', () => {
    if (idle === thread) idle = null;
  });
  return thread;
}

/** Null when it had none in its time. */
function answerOf(
  thread: Worker,
  request: CompileRequest,
  msMax: number,
): Promise<CompileAnswer | null> {
  const { port1, port2 } = new MessageChannel();
  return new Promise((resolve) => {
    const end = (answer: CompileAnswer | null) => {
      clearTimeout(timer);
      thread.off('exit', onExit);
      port1.close();
      resolve(answer);
    };
    const onExit = () => end(null);
    const timer = setTimeout(onExit, msMax);
    thread.once('exit', onExit);
    port1.once('message', end);
    thread.postMessage({ request, port: port2 }, [port2]);
  });
}
