/**
 * Owns the other side of the schema compiler: answers each request on the port that came with it.
 * It must never load the native library: its memory and its calls belong to the decode loop.
 */
import { type MessagePort, parentPort } from 'node:worker_threads';
import type { CompileAnswer, CompileRequest } from './compiler.js';
import { SchemaError } from './schema/cost.js';
import { constraintGrammar } from './schema/grammar.js';

function answerTo({ constraint, depth }: CompileRequest): CompileAnswer {
  try {
    return constraintGrammar(constraint, depth);
  } catch (cause) {
    if (cause instanceof SchemaError) return { refusal: cause.message, param: cause.param };
    throw cause;
  }
}

parentPort?.on('message', ({ request, port }: { request: CompileRequest; port: MessagePort }) => {
  port.postMessage(answerTo(request));
});
// All that it needs is loaded.
parentPort?.postMessage('ready');
