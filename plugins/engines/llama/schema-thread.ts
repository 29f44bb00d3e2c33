/**
 * Owns the other side of the schema compiler: answers each request on the port that came with it.
 * It must never load the native library: its memory and its calls belong to the decode loop.
 */
import { type MessagePort, parentPort } from 'node:worker_threads';
import type { CompileAnswer, CompileRequest } from './compiler.js';
import { SchemaError } from './schema/cost.js';
import { schemaGrammar } from './schema/grammar.js';

function answerTo({ schema, leadingSpace }: CompileRequest): CompileAnswer {
  try {
    return schemaGrammar(schema, leadingSpace);
  } catch (cause) {
    if (cause instanceof SchemaError) return { refusal: cause.message };
    throw cause;
  }
}

parentPort?.on('message', ({ request, port }: { request: CompileRequest; port: MessagePort }) => {
  port.postMessage(answerTo(request));
});
