/**
 * Owns the run of a tokenization task in a pool thread: open the plugin once, call it, answer.
 * It must never throw across the thread: an error is a value, since cloning loses its class and fields.
 */
import { setImmediate } from 'node:timers/promises';
import { toErrorValue } from '../src/errors.js';
import { limits } from '../src/limits/index.js';
import type { Tokenizer, TokenizerOptions } from '../src/plugin/contract.js';
import { loadPlugin } from '../src/plugin/load.js';
import { collectGarbage } from '../src/pool/garbage.js';
import { freeMemory } from '../src/pool/memory.js';
import type {
  PackedText,
  TokenizeResult,
  TokenizerRef,
  TokenizeTask,
} from '../src/pool/messages.js';
import { memoryOf, textOf } from '../src/pool/packed-text.js';
import { step } from '../src/pool/thread-watch.js';

/** One per vocabulary for the life of the thread: building one takes a third of a second. */
const opened = new Map<string, Promise<Opened>>();

interface Opened {
  readonly tokenizer: Tokenizer;
  readonly isQuick: boolean;
}

export default async function tokenize(task: TokenizeTask): Promise<TokenizeResult> {
  try {
    const { tokenizer, isQuick } = await openedOf(task.tokenizer);
    return task.type === 'info'
      ? { type: 'info', info: tokenizer.info(), isQuick }
      : await encodeAll(tokenizer, task.texts, task.idsMax ?? Number.POSITIVE_INFINITY);
  } catch (cause) {
    return { type: 'error', error: toErrorValue(cause) };
  } finally {
    if (task.type === 'encode') tidy(task.texts);
  }
}

function tidy(texts: readonly (string | PackedText)[]): void {
  for (const memory of memoryOf(texts)) freeMemory(memory);
  collectGarbage(texts.reduce((sum, text) => sum + text.length, 0));
}

async function openedOf({ module, ...options }: TokenizerRef): Promise<Opened> {
  const key = JSON.stringify([module, options.path]);
  const known = opened.get(key);
  if (known !== undefined) return await known;
  const opening = open(module, options);
  opened.set(key, opening);
  // After a failure, such as a missing file, the next task tries again.
  opening.catch(() => opened.delete(key));
  return await opening;
}

async function open(module: string, options: TokenizerOptions): Promise<Opened> {
  const { open: openIt, isQuick = false } = await loadPlugin(module, 'tokenizer');
  return { tokenizer: await openIt(options), isQuick };
}

/** Between its steps the thread takes new tasks: a long text must not hold up short ones. */
async function encodeLong(tokenizer: Tokenizer, text: string): Promise<Uint32Array> {
  const steps = tokenizer.encodeInSteps?.(text);
  if (steps === undefined) return step(() => tokenizer.encode(text));
  let pauseMs = performance.now() + limits.encodeStepMs;
  for (;;) {
    const next = step(() => steps.next());
    if (next.done === true) return next.value;
    if (performance.now() < pauseMs) continue;
    await setImmediate();
    pauseMs = performance.now() + limits.encodeStepMs;
  }
}

/** Copied, not transferred, to the other thread: the ids of a prompt are small, and a transfer costs more. */
async function encodeAll(
  tokenizer: Tokenizer,
  texts: readonly (string | PackedText)[],
  idsMax: number,
): Promise<TokenizeResult> {
  const parts: Uint32Array[] = [];
  const lengths = new Uint32Array(texts.length);
  let count = 0;
  for (const [at, given] of texts.entries()) {
    const text = typeof given === 'string' ? given : textOf(given);
    // The bytes of one long text are given back before its ids are made.
    if (texts.length === 1) for (const memory of memoryOf(texts)) freeMemory(memory);
    const part = await encodeOne(tokenizer, text);
    lengths[at] = part.length;
    count += part.length;
    if (count <= idsMax) parts.push(part);
    else parts.length = 0;
  }
  return { type: 'encoded', ids: count <= idsMax ? joined(parts, count) : null, lengths };
}

async function encodeOne(tokenizer: Tokenizer, text: string): Promise<Uint32Array> {
  if (tokenizer.encodeLater !== undefined) return await tokenizer.encodeLater(text);
  const isShort = text.length <= limits.encodeChunkLengthMax;
  return isShort ? step(() => tokenizer.encode(text)) : await encodeLong(tokenizer, text);
}

function joined(parts: readonly Uint32Array[], count: number): Uint32Array {
  const ids = new Uint32Array(count);
  let at = 0;
  for (const part of parts) {
    ids.set(part, at);
    at += part.length;
  }
  return ids;
}
